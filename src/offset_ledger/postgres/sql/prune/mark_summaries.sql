UPDATE offset_ledger.batch AS b SET
    kind = 'pruned', planned_at = s.planned_at, config_hash = s.config_hash, slices_expected = 0, rows = s.rows,
    refused = s.refused, skipped = s.skipped, verdict = '{}', claimed_at = NULL, staged_at = NULL, validated_at = NULL,
    dag_id = NULL, run_id = NULL, try_number = NULL, request = NULL, gap_reason = NULL, late = NULL,
    changed_by = %(who)s, changed_why = %(why)s
FROM (SELECT c.summary, min(planned_at) AS planned_at, sum(rows) AS rows, sum(refused) AS refused, sum(skipped) AS skipped,
             CASE WHEN count(DISTINCT config_hash) = 1 THEN min(config_hash) ELSE 'several' END AS config_hash
      FROM prune_choice c JOIN offset_ledger.batch USING (batch_id) WHERE c.head GROUP BY c.summary) AS s
WHERE b.batch_id = s.summary
