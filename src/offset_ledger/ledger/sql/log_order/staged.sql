-- Staged rows as the log orders them. The moment of a record is that of the newest one of its key and partition, staged or
-- stored: _at of the staged row, _stored_at of the stored one. So offsets order what one partition has, moments the rest.
(SELECT s.*, CASE WHEN _log < _stored_log THEN '-infinity' WHEN _same AND _stored_offset {beyond} _last THEN _stored_moment ELSE _last_at END AS _at,
        CASE WHEN _log > _stored_log THEN '-infinity'
             ELSE coalesce(max(_last_at) FILTER (WHERE _same AND _last > _stored_offset) OVER (PARTITION BY {key}), _stored_moment)
        END AS _stored_at
 FROM (SELECT s.*, t.publish_at AS _stored_moment, t._offset AS _stored_offset, _stored_log, {same_partition} AND coalesce(_log = _stored_log, true) AS _same,
              first_value(s.publish_at) OVER of_partition AS _last_at, first_value(s._offset) OVER of_partition AS _last
       FROM (SELECT s.*, {log} AS _log FROM {staging} AS s) AS s
       LEFT JOIN (SELECT t.*, {stored_log} AS _stored_log FROM {target} AS t) AS t ON {same_key}
       WINDOW of_partition AS (PARTITION BY {partition} ORDER BY s._offset {direction})) AS s)
