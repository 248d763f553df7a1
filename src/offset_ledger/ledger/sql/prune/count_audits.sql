SELECT count(*) FROM offset_ledger.topic_audit AS a
WHERE pipeline = %(pipeline)s AND audited_at < %(older_than)s
  AND EXISTS (SELECT FROM offset_ledger.topic_audit n
              WHERE (n.pipeline, n.topic) = (a.pipeline, a.topic) AND n.audited_at > a.audited_at)
