-- From now on the table is expected to have so many event ids less than what its batches have added since the last count.
WITH added AS (
    SELECT coalesce(sum(r.added), 0)
               + (SELECT coalesce(sum(p.added), 0) FROM offset_ledger.pruned_reread p JOIN offset_ledger.batch USING (batch_id)
                  JOIN offset_ledger.pipeline USING (pipeline) WHERE file = %(file)s) AS now
    FROM offset_ledger.pipeline p JOIN offset_ledger.batch b USING (pipeline) JOIN offset_ledger.batch_range r USING (batch_id)
    WHERE p.file = %(file)s AND b.state = 'committed'
)
INSERT INTO offset_ledger.table_count (pipeline, event_ids, added, who, why)
SELECT %(pipeline)s, a.now + coalesce(c.event_ids - c.added, 0) - %(removed)s, a.now, %(who)s, 'delete markers were pruned'
FROM added AS a
LEFT JOIN LATERAL (SELECT event_ids, added FROM offset_ledger.table_count JOIN offset_ledger.pipeline USING (pipeline)
                   WHERE file = %(file)s ORDER BY count_id DESC LIMIT 1) AS c ON true
