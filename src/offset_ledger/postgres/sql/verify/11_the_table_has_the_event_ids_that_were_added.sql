-- Event ids are added by batches and never removed: a delete leaves a marker. All pipelines of the file fill the table.
SELECT format('the table has %%s %%s, but its batches make it %%s: %%s', t.event_ids, {counted}, a.added + a.since,
              CASE WHEN t.event_ids < a.added + a.since THEN 'rows were removed' ELSE 'rows were put in' END)
FROM (SELECT count(*) AS event_ids FROM {target} AS r) AS t
CROSS JOIN (
    SELECT coalesce(sum(r.added), 0)
               + (SELECT coalesce(sum(p.added), 0) FROM offset_ledger.pruned_reread p JOIN offset_ledger.batch USING (batch_id)
                  JOIN offset_ledger.pipeline USING (pipeline) WHERE file = %(file)s) AS added, coalesce(c.event_ids - c.added, 0) AS since
    FROM offset_ledger.pipeline AS p
    JOIN offset_ledger.batch b USING (pipeline)
    JOIN offset_ledger.batch_range r USING (batch_id)
    LEFT JOIN LATERAL (SELECT event_ids, added FROM offset_ledger.table_count JOIN offset_ledger.pipeline USING (pipeline)
                       WHERE file = %(file)s ORDER BY count_id DESC LIMIT 1) AS c ON true
    WHERE p.file = %(file)s AND b.state = 'committed'
    GROUP BY c.event_ids, c.added
) AS a
WHERE t.event_ids <> a.added + a.since
UNION ALL
-- A unique index of a partitioned table has its partition columns too, and so does not keep the key alone apart.
SELECT format('event %%s stands %%s times in the table, at %%s', min({stored_event}), count(*),
              string_agg(format('partition %%s offset %%s', t._partition, t._offset), ', ' ORDER BY {stored_state}))
FROM {keyed} AS t
WHERE EXISTS (SELECT FROM offset_ledger.pipeline JOIN pg_partitioned_table ON partrelid = to_regclass(target)
              WHERE pipeline = %(pipeline)s)
GROUP BY {stored_key} HAVING count(*) > 1
