-- What all pipelines of the file have added.
INSERT INTO offset_ledger.table_count (pipeline, event_ids, added, who, why)
SELECT %(pipeline)s, t.event_ids, a.added, %(who)s, %(why)s
FROM (SELECT count(*) AS event_ids FROM {target} AS r) AS t,
     (SELECT coalesce(sum(r.added), 0)
                 + (SELECT coalesce(sum(p.added), 0) FROM offset_ledger.pruned_reread p JOIN offset_ledger.batch USING (batch_id)
                    JOIN offset_ledger.pipeline USING (pipeline) WHERE file = %(file)s) AS added
      FROM offset_ledger.pipeline p JOIN offset_ledger.batch b USING (pipeline) JOIN offset_ledger.batch_range r USING (batch_id)
      WHERE p.file = %(file)s AND b.state = 'committed') AS a
RETURNING event_ids
