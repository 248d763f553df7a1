-- The timestamp as a number, because a moment of Kafka's may lie outside of the years that Python knows.
SELECT q.key, q.value, q."offset", (extract(epoch FROM q."timestamp") * 1000000)::bigint AS microseconds, q.headers
FROM offset_ledger.redrive_record r JOIN offset_ledger.quarantine q USING (quarantine_id)
WHERE r.batch_id = %(batch_id)s AND q.partition = %(partition)s
ORDER BY q."offset"
