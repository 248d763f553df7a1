WITH page AS (
    SELECT audited_at, min(audit_id) AS audit_id, min(who) AS who, min(dag_id) AS dag_id, min(run_id) AS run_id,
           jsonb_object_agg(rule, severity) AS severities
    FROM offset_ledger.topic_audit
    WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL))
      AND audited_at < %(before)s AND (%(at)s::timestamptz IS NULL OR audited_at = %(at)s)
    GROUP BY audited_at
    HAVING (%(severity)s::text IS NULL AND %(rule)s::text IS NULL)
        OR bool_or((%(rule)s::text IS NULL OR rule = %(rule)s)
                   AND CASE WHEN %(severity)s::text IS NULL THEN severity <> 'ok' ELSE severity = %(severity)s END)
    ORDER BY audited_at DESC LIMIT %(limit)s
)
SELECT page.*, earlier.severities AS before
FROM page
CROSS JOIN LATERAL (
    SELECT jsonb_object_agg(rule, severity) AS severities
    FROM offset_ledger.topic_audit
    WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL))
      AND audited_at = (
        SELECT max(audited_at) FROM offset_ledger.topic_audit
        WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL))
          AND audited_at < page.audited_at)
) AS earlier
ORDER BY page.audited_at DESC
