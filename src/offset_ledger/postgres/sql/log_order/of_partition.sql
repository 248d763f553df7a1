-- The newest of the staged records of a key and a partition, and whether the stored one is of that partition and log.
{stored}.publish_at AS {stored_moment}, {stored}._offset AS {stored_offset}, {stored_log},
{same_partition} AND coalesce(_log = {stored_log}, true) AS {same},
first_value(s.publish_at) OVER (PARTITION BY {partition} ORDER BY s._offset {direction}) AS {last_at},
first_value(s._offset) OVER (PARTITION BY {partition} ORDER BY s._offset {direction}) AS {last}
