WITH merged AS (
    MERGE INTO {target} AS t
    USING (
        SELECT DISTINCT ON ({key}) {columns}
        FROM {staging}
        ORDER BY {key}, publish_at, _partition, _offset
    ) AS s ON {same_key}
    WHEN NOT MATCHED THEN
        INSERT ({columns}, _batch_id) VALUES ({values}, %(batch_id)s)
    -- t is the row as it was stored: a trigger may have made another one of it.
    RETURNING s._partition, s._deleted,
              CASE WHEN ({stored_order}, t._batch_id)
                        IS DISTINCT FROM ({order}, %(batch_id)s) THEN {event} END AS wrong
)
SELECT _partition,
       min(wrong) AS wrong,
       count(*) FILTER (WHERE wrong IS NULL AND NOT _deleted) AS inserted,
       0 AS updated,
       count(*) FILTER (WHERE wrong IS NULL AND _deleted) AS deleted,
       count(*) AS added
FROM merged GROUP BY _partition
