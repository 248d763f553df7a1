SELECT at, from_state, to_state, epoch, who, why
FROM offset_ledger.batch_event WHERE batch_id = %(batch_id)s ORDER BY event_id
