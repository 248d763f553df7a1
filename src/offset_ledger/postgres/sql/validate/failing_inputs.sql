SELECT _partition, _offset, jsonb_build_object('path', {column}, 'code', 'input', 'detail', concat('expected ', {type}, ': ',
           left(regexp_replace({error}, '[[:cntrl:]]+', ' ', 'g'), 200))) AS reason
FROM {staging} AS s WHERE {error} IS NOT NULL
