-- since: the first of the audits in a row, up to this one, in which the rule was ok as it is here, or was not.
WITH series AS NOT MATERIALIZED (
    SELECT rule, severity, found, risk, remedy, audited_at FROM offset_ledger.topic_audit
    WHERE topic = %(topic)s AND (pipeline = %(pipeline)s OR (%(pipeline)s::text IS NULL AND pipeline IS NULL))
      AND audited_at <= %(at)s
)
SELECT f.rule, f.severity, f.found, f.risk, f.remedy, first.since
FROM series f
CROSS JOIN LATERAL (
    SELECT max(audited_at) AS last FROM series
    WHERE rule = f.rule AND (severity = 'ok') <> (f.severity = 'ok')
) AS other
CROSS JOIN LATERAL (
    SELECT min(audited_at) AS since FROM series
    WHERE rule = f.rule AND audited_at > coalesce(other.last, '-infinity')
) AS first
WHERE f.audited_at = %(at)s
ORDER BY array_position(ARRAY['error', 'warning', 'info', 'ok'], f.severity), f.rule
