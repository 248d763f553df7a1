-- How the staged rows rank among themselves, in the order of the merge: the first of an event wins, and each other one
-- has lost to it. It closes the balance sheet where the merge wrote every winner.
WITH ranked AS (
    SELECT _partition,
           row_number() OVER by_event AS place,
           publish_at = first_value(publish_at) OVER by_event AS same_time
    FROM {staging} AS s
    WINDOW by_event AS (PARTITION BY {key} ORDER BY publish_at DESC, _partition DESC, _offset DESC)
)
SELECT _partition,
       count(*) AS rows,
       count(*) FILTER (WHERE place = 1) AS standing,
       count(*) FILTER (WHERE place > 1 AND same_time) AS same_state,
       count(*) FILTER (WHERE place > 1 AND NOT same_time) AS older
FROM ranked GROUP BY _partition
