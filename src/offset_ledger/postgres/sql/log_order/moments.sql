-- The moment of a record is that of the newest one of its key and partition, staged or stored: _at of the staged row,
-- _stored_at of the stored one. So offsets order what one partition has, moments the rest.
CASE WHEN _log < {stored_log} THEN '-infinity' WHEN {same} AND {stored_offset} {beyond} {last} THEN {stored_moment} ELSE {last_at} END AS {at},
CASE WHEN _log > {stored_log} THEN '-infinity'
     ELSE coalesce(max({last_at}) FILTER (WHERE {has} AND {same} AND {last} > {stored_offset}) OVER (PARTITION BY {key}), {stored_moment})
END AS {stored_at}
