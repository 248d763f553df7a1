SELECT partition, min(from_offset) AS "from", max(until_offset) AS "until", sum(inserted)::bigint AS inserted,
       sum(updated)::bigint AS updated, sum(superseded)::bigint AS superseded, sum(duplicate)::bigint AS duplicate,
       sum(deleted)::bigint AS deleted, sum(quarantined)::bigint AS quarantined, sum(skipped)::bigint AS skipped,
       sum(gap)::bigint AS gap
FROM offset_ledger.batch_range WHERE pipeline = 'flights' AND committed_from IS NOT NULL
GROUP BY partition ORDER BY partition
