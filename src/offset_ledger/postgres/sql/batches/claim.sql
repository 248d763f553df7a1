UPDATE offset_ledger.batch
SET state = 'staging', epoch = epoch + 1, claimed_at = now(), slices_expected = NULL, gap_reason = NULL, rows = NULL,
    refused = NULL, skipped = NULL, engine = NULL, engine_reason = NULL, verdict = NULL, staged_at = NULL, late = NULL,
    validated_at = NULL, try_number = coalesce(%(try_number)s, try_number),
    config_hash = coalesce(%(config_hash)s, config_hash), changed_by = %(who)s, changed_why = NULL
WHERE batch_id = %(batch_id)s AND state = ANY(%(claimable)s)
RETURNING epoch
