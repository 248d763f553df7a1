SELECT format('batch %%s is %%s epoch %%s, its last event says %%s epoch %%s', b.batch_id, b.state, b.epoch, e.to_state, e.epoch)
FROM offset_ledger.batch b
LEFT JOIN LATERAL (SELECT to_state, epoch FROM offset_ledger.batch_event e
                   WHERE e.batch_id = b.batch_id ORDER BY event_id DESC LIMIT 1) AS e ON true
WHERE pipeline = %(pipeline)s AND (b.state, b.epoch) IS DISTINCT FROM (e.to_state, e.epoch)
