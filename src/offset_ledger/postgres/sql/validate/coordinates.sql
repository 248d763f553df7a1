SELECT DISTINCT p AS _partition, o AS _offset FROM ({query}) AS failing (p, o)
