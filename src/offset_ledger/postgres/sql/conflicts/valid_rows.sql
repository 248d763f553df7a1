-- Fenced: nothing may read the values of other rows.
(SELECT * FROM {staging} AS s WHERE (_partition, _offset) NOT IN ({refused}) OFFSET 0)
