INSERT INTO offset_ledger.table_count (pipeline, event_ids, added, who, why)
SELECT %(pipeline)s, t.event_ids, a.added, %(who)s, %(why)s
FROM (SELECT count(*) AS event_ids FROM {target}) AS t,
     (SELECT coalesce(sum(r.added), 0)
                 + (SELECT coalesce(sum(p.added), 0) FROM offset_ledger.pruned_reread p JOIN offset_ledger.batch USING (batch_id)
                    WHERE pipeline = %(pipeline)s) AS added
      FROM offset_ledger.batch b JOIN offset_ledger.batch_range r USING (batch_id)
      WHERE b.pipeline = %(pipeline)s AND b.state = 'committed') AS a
RETURNING event_ids
