SELECT _partition, _offset FROM {staging} AS s WHERE {error} IS NOT NULL
