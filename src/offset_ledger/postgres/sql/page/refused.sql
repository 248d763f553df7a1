-- Without an order: the table has no index, and those that were staged first are as good as any.
SELECT _partition AS partition, _offset AS "offset", _timestamp AS "timestamp", reasons,
       octet_length(_key) AS key_bytes, octet_length(_value) AS value_bytes,
       substring(_key FROM 1 FOR %(shown)s) AS key, substring(_value FROM 1 FOR %(shown)s) AS value
FROM {refused} WHERE %(partition)s::integer IS NULL OR (_partition = %(partition)s AND _offset = %(offset)s) LIMIT %(limit)s
