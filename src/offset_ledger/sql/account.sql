-- After the merge every staged row either stands in the target or has lost to the row that does: nothing else closes
-- the balance sheet. A place alone does not tell a record: after another log was accepted, others have the places of before.
SELECT s._partition,
       count(*) AS rows,
       count(*) FILTER (WHERE (t.publish_at, t._partition, t._offset) = (s.publish_at, s._partition, s._offset)) AS standing,
       count(*) FILTER (WHERE (t.publish_at, t._partition, t._offset) <> (s.publish_at, s._partition, s._offset)
                          AND ({skip_existing} OR t.publish_at = s.publish_at)) AS same_state,
       count(*) FILTER (WHERE NOT {skip_existing} AND t.publish_at > s.publish_at) AS older
FROM {staging} AS s LEFT JOIN {target} AS t ON t.event_id = s.event_id
GROUP BY s._partition
