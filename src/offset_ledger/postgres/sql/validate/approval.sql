-- The last approval that a person gave this batch, if the gate had judged exactly this.
SELECT approval->>'who' AS who, approval->>'why' AS why FROM offset_ledger.batch
WHERE batch_id = %(batch_id)s AND approval->'judged' = %(judged)s::jsonb
