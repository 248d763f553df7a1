-- A row that stands was written by its batch, so there are no more of them than the balance sheet of its range has.
SELECT format('batch %%s partition %%s: %%s rows and %%s delete markers of it stand in the table, its balance sheet has %%s '
              'and %%s', r.batch_id, r.partition, t.rows, t.markers, r.inserted + r.updated, r.deleted)
FROM (SELECT _batch_id, _partition, count(*) FILTER (WHERE NOT _deleted) AS rows, count(*) FILTER (WHERE _deleted) AS markers
      FROM {target} GROUP BY _batch_id, _partition) AS t
JOIN offset_ledger.batch_range r ON r.batch_id = t._batch_id AND r.partition = t._partition
JOIN offset_ledger.batch b ON b.batch_id = r.batch_id AND b.pipeline = %(pipeline)s AND b.state = 'committed'
WHERE t.rows > r.inserted + r.updated OR t.markers > r.deleted
LIMIT 100
