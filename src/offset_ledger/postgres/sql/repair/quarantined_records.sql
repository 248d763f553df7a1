-- The newest quarantined records with their bytes; a timestamp in milliseconds, because it may be of the year 294,246.
SELECT topic_id, partition, "offset", (extract(epoch FROM "timestamp") * 1000)::bigint AS "timestamp", key, headers::text AS headers,
       value, coalesce(retried_reasons, reasons) AS reasons, batch_id, schema_id, quarantined_at, resolved_by, dismissed_by
FROM offset_ledger.quarantine
WHERE pipeline = %(pipeline)s AND (resolved_by IS NOT NULL) = %(resolved)s AND (dismissed_by IS NOT NULL) = %(dismissed)s
  AND (%(reason)s::text IS NULL OR coalesce(retried_reasons, reasons) @> jsonb_build_array(jsonb_build_object('code', %(reason)s::text)))
  AND (%(since)s::timestamptz IS NULL OR quarantined_at >= %(since)s)
ORDER BY quarantine_id DESC LIMIT %(limit)s
