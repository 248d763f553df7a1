WITH merged AS (
    MERGE INTO {target} AS t
    USING (
        SELECT DISTINCT ON (event_id) {columns}
        FROM {staging}
        ORDER BY event_id, publish_at DESC, _partition DESC, _offset DESC
    ) AS s ON t.event_id = s.event_id
    WHEN MATCHED AND (s.publish_at, s._partition, s._offset) > (t.publish_at, t._partition, t._offset)
        THEN UPDATE SET {assignments}, _batch_id = %(batch_id)s
    WHEN NOT MATCHED THEN
        INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
    RETURNING merge_action() AS action, s._partition, s._deleted
)
SELECT _partition,
       count(*) FILTER (WHERE NOT _deleted AND action = 'INSERT') AS inserted,
       count(*) FILTER (WHERE NOT _deleted AND action = 'UPDATE') AS updated,
       count(*) FILTER (WHERE _deleted) AS deleted,
       count(*) FILTER (WHERE action = 'INSERT') AS added
FROM merged GROUP BY _partition
