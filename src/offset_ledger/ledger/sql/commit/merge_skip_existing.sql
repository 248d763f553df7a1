WITH merged AS (
    MERGE INTO {target} AS t
    USING (
        SELECT DISTINCT ON (event_id) {columns}
        FROM {staging}
        ORDER BY event_id, publish_at, _partition, _offset
    ) AS s ON t.event_id = s.event_id
    WHEN NOT MATCHED THEN
        INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
    -- t is the row as it was stored: a trigger may have made another one of it.
    RETURNING s._partition, s._deleted,
              CASE WHEN ({stored_order}, t._batch_id)
                        IS DISTINCT FROM ({order}, %(batch_id)s) THEN s.event_id END AS wrong
)
SELECT _partition,
       min(wrong) AS wrong,
       count(*) FILTER (WHERE wrong IS NULL AND NOT _deleted) AS inserted,
       0 AS updated,
       count(*) FILTER (WHERE wrong IS NULL AND _deleted) AS deleted,
       count(*) AS added
FROM merged GROUP BY _partition
