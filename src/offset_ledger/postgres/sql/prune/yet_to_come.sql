-- What may still be merged into the table of the file, of whichever age: open batches, and records in quarantine, also dismissed ones,
-- since that can be undone, with the moment of the oldest by Kafka's clock; NULL where one has none.
SELECT (SELECT count(*) FROM offset_ledger.batch JOIN offset_ledger.pipeline USING (pipeline)
        WHERE file = %(file)s AND state NOT IN ('committed', 'abandoned')) AS batches,
       count(q.quarantine_id) AS records,
       CASE WHEN count(*) = count(q."timestamp") THEN min(q."timestamp") END AS oldest
FROM offset_ledger.quarantine AS q JOIN offset_ledger.pipeline USING (pipeline)
WHERE file = %(file)s AND resolved_by IS NULL
