-- A record that another one has lost to keeps its values, whatever older record wins then.
UPDATE pg_temp.contender AS s SET _settled = true FROM pg_temp.conflicting AS c
WHERE (s._partition, s._offset) = (c.to_partition, c.to_offset) AND NOT _settled;
DELETE FROM pg_temp.contender AS s USING pg_temp.conflicting AS c WHERE (s._partition, s._offset) = (c._partition, c._offset)
