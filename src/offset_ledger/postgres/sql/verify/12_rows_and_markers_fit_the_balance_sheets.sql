-- A row that stands was written by its batch, so there are no more of them than the balance sheet of its range has; of pruned
-- batches the sums are known.
SELECT format('batch %%s partition %%s: %%s rows and %%s delete markers of it stand in the table, its balance sheet has %%s '
              'and %%s', t.batch_id, t._partition, t.rows, t.markers, s.rows, s.markers)
FROM (SELECT offset_ledger.stands_for(%(pipeline)s, _batch_id) AS batch_id, _partition, sum(rows) AS rows,
             sum(markers) AS markers
      FROM (SELECT _batch_id, _partition, count(*) FILTER (WHERE NOT _deleted) AS rows,
                   count(*) FILTER (WHERE _deleted) AS markers
            FROM {rows} AS t GROUP BY _batch_id, _partition) AS of_batch
      GROUP BY 1, 2) AS t
JOIN offset_ledger.batch b ON b.batch_id = t.batch_id AND b.pipeline = %(pipeline)s AND b.state = 'committed'
LEFT JOIN offset_ledger.batch_range r ON r.batch_id = t.batch_id AND r.partition = t._partition
LEFT JOIN offset_ledger.pruned_reread p ON p.batch_id = t.batch_id AND p.partition = t._partition
CROSS JOIN LATERAL (SELECT coalesce(r.inserted + r.updated, 0) + coalesce(p.inserted + p.updated, 0) AS rows,
                           coalesce(r.deleted, 0) + coalesce(p.deleted, 0) AS markers) AS s
WHERE coalesce(r.batch_id, p.batch_id) IS NOT NULL AND (t.rows > s.rows OR t.markers > s.markers)
