WITH merged AS (
    MERGE INTO {target} AS t
    USING (
        SELECT DISTINCT ON (event_id) {columns}
        FROM {staging}
        ORDER BY event_id, publish_at, _partition, _offset
    ) AS s ON t.event_id = s.event_id
    WHEN NOT MATCHED THEN
        INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
    RETURNING s._partition, s._deleted
)
SELECT _partition,
       count(*) FILTER (WHERE NOT _deleted) AS inserted,
       0 AS updated,
       count(*) FILTER (WHERE _deleted) AS deleted,
       count(*) AS added
FROM merged GROUP BY _partition
