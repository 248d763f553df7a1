SELECT extract(epoch FROM staged_at - claimed_at)::float AS stage,
       extract(epoch FROM validated_at - staged_at)::float AS validate,
       extract(epoch FROM ended_at - validated_at)::float AS commit,
       (SELECT sum(until_offset - from_offset - gap)::bigint FROM offset_ledger.batch_range r WHERE r.batch_id = b.batch_id) AS records,
       (SELECT sum(quarantined)::bigint FROM offset_ledger.batch_range r WHERE r.batch_id = b.batch_id) AS quarantined
FROM offset_ledger.batch b WHERE batch_id = %s
