WITH merged AS (
    {merge}
    -- t is the row as it was stored: a trigger may have made another one of it.
    RETURNING merge_action() AS action, s._partition, s._deleted,
              CASE WHEN ({stored_order}, t._batch_id)
                        IS DISTINCT FROM ({order}, %(batch_id)s) THEN {event} END AS wrong
)
SELECT _partition,
       min(wrong) AS wrong,
       count(*) FILTER (WHERE wrong IS NULL AND NOT _deleted AND action = 'INSERT') AS inserted,
       count(*) FILTER (WHERE wrong IS NULL AND NOT _deleted AND action = 'UPDATE') AS updated,
       count(*) FILTER (WHERE wrong IS NULL AND _deleted) AS deleted,
       count(*) FILTER (WHERE action = 'INSERT') AS added
FROM merged GROUP BY _partition
