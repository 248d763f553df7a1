-- After the merge every staged row either stands in the target or has lost to the row that does, by the whole order:
-- nothing else closes the balance sheet. Partition and offset alone do not identify a record: after another log was
-- accepted, others have them. And a batch id alone does not say who wrote a row: a ledger that was made again counts from 1.
WITH joined AS (
    SELECT s._partition,
           {whole} AS whole,
           {event} AS event,
           ({stored_order}) = ({order}) AS stands,
           ({stored_order}) > ({order}) AS lost_to_later,
           ({stored_order}) < ({order}) AS lost_to_earlier,
           t.publish_at = s.publish_at AS same_time,
           {known} IS NOT NULL AS known,
           t.xmin = %(xid)s::xid8::xid OR ({triggers} AND t._batch_id IS NOT DISTINCT FROM %(batch_id)s) AS just_written,
           ({stored_place}) = ({place})
           AND (t._batch_id <> %(batch_id)s OR ROW({stored})::record OPERATOR(pg_catalog.*<>) ROW({values})::record)
               AS differs
    FROM {staging} AS s LEFT JOIN {target} AS t ON {same_key}
), closed AS (
    SELECT _partition,
           whole,
           event,
           just_written,
           {triggers} AND just_written AND differs AS altered,
           CASE WHEN stands THEN 'standing'
                WHEN {skip_existing} AND known AND (NOT just_written OR lost_to_earlier) THEN 'same_state'
                WHEN NOT {skip_existing} AND lost_to_later THEN CASE WHEN same_time THEN 'same_state' ELSE 'older' END
           END AS became
    FROM joined
)
SELECT _partition,
       count(*) FILTER (WHERE whole) AS rows,
       count(*) FILTER (WHERE whole AND became = 'standing') AS standing,
       count(*) FILTER (WHERE whole AND became = 'same_state') AS same_state,
       count(*) FILTER (WHERE whole AND became = 'older') AS older,
       count(*) FILTER (WHERE whole AND became = 'standing' AND just_written) AS written,
       min(event) FILTER (WHERE became IS NULL OR altered) AS wrong
FROM closed GROUP BY _partition
