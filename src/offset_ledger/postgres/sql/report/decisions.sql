SELECT CASE to_state WHEN 'validated' THEN 'approved' ELSE to_state END AS decision, who, at, coalesce(why, '') AS why
FROM offset_ledger.batch_event
WHERE batch_id = %(batch_id)s AND (to_state = 'abandoned' OR (from_state, to_state) = ('rejected', 'validated'))
ORDER BY event_id
