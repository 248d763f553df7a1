UPDATE offset_ledger.decision
SET answer = %(answer)s, who = %(who)s, why = %(why)s, answered_at = now(), batch_id = coalesce(%(batch_id)s, batch_id)
WHERE decision_id = %(decision_id)s AND answer IS NULL
