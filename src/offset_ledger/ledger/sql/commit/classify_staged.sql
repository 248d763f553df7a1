-- What the merge makes of the staged rows: each loses to the newest of its key among them, or that one to the stored row.
WITH s AS (
    SELECT {key}, {ordering}, _deleted, row_number() OVER by_key AS place, first_value(publish_at) OVER by_key AS newest
    FROM {staging}
    WINDOW by_key AS (PARTITION BY {key} ORDER BY publish_at DESC, _partition DESC, _offset DESC)
), compared AS (
    SELECT s._partition, s._deleted, {known} IS NULL AS added,
           s.place = 1 AND ({known} IS NULL OR ({order}) > ({stored_order})) AS written,
           s.place = 1 AND ({order}) = ({stored_order}) AS stood,
           s.publish_at = greatest(s.newest, t.publish_at) AS same_time
    FROM s LEFT JOIN {target} AS t ON {same_key}
)
SELECT _partition,
       count(*) AS rows,
       count(*) FILTER (WHERE written AND added AND NOT _deleted) AS inserted,
       count(*) FILTER (WHERE written AND NOT added AND NOT _deleted) AS updated,
       count(*) FILTER (WHERE written AND _deleted) AS deleted,
       count(*) FILTER (WHERE written AND added) AS added,
       count(*) FILTER (WHERE written OR stood) AS standing,
       count(*) FILTER (WHERE NOT (written OR stood) AND same_time) AS same_state,
       count(*) FILTER (WHERE NOT (written OR stood) AND NOT same_time) AS older
FROM compared GROUP BY _partition
