INSERT INTO offset_ledger.dismissal (pipeline, undone, who, why) VALUES (%(pipeline)s, %(undone)s, %(who)s, %(why)s)
RETURNING dismissal_id
