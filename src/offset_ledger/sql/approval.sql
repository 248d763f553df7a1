-- The first approval that a person gave this batch when the gate had said exactly this.
SELECT a.who, a.why FROM offset_ledger.batch_event a
WHERE a.batch_id = %(batch_id)s AND a.from_state = 'rejected' AND a.to_state = 'validated'
  AND %(reasons)s = (SELECT r.why FROM offset_ledger.batch_event r
                     WHERE r.batch_id = a.batch_id AND r.to_state = 'rejected' AND r.event_id < a.event_id
                     ORDER BY r.event_id DESC LIMIT 1)
ORDER BY a.event_id LIMIT 1
