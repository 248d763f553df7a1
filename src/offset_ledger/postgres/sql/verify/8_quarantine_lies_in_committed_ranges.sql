SELECT format('partition %%s offset %%s is in quarantine by batch %%s, which did not commit that offset', q.partition,
              q."offset", q.batch_id)
FROM offset_ledger.quarantine q
WHERE q.pipeline = %(pipeline)s AND NOT EXISTS (
    SELECT FROM offset_ledger.batch_range r JOIN offset_ledger.batch b USING (batch_id)
    WHERE r.batch_id = q.batch_id AND r.partition = q.partition AND b.state = 'committed'
      AND q."offset" >= r.from_offset AND q."offset" < r.until_offset)
