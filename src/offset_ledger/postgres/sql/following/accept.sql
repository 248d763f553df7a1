INSERT INTO offset_ledger.accepted_difference (pipeline, path, difference, who, why)
VALUES (%(pipeline)s, %(path)s, %(difference)s, %(who)s, %(why)s) ON CONFLICT DO NOTHING
