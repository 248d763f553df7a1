SELECT coalesce((SELECT later FROM offset_ledger.subscribed_topic WHERE file = %(file)s AND topic = %(topic)s),
                EXISTS (SELECT FROM offset_ledger.subscribed_topic WHERE file = %(file)s))
