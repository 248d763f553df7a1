DELETE FROM offset_ledger.notification WHERE notification_id = ANY(%(ids)s)
