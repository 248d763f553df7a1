SELECT batch_id, epoch FROM offset_ledger.batch AS b
WHERE pipeline = %(pipeline)s AND state = 'committed' AND EXISTS (
    SELECT FROM offset_ledger.slice AS s
    WHERE s.batch_id = b.batch_id AND s.epoch = b.epoch AND s.rows > 0 AND s.unread IS NOT NULL)
ORDER BY batch_id DESC LIMIT 1
