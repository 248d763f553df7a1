-- Whether the event ids of the table can be compared with what the batches added: all have counted, or the table was counted.
SELECT EXISTS (SELECT FROM offset_ledger.table_count WHERE pipeline = %(pipeline)s)
    OR NOT EXISTS (SELECT FROM offset_ledger.batch b JOIN offset_ledger.batch_range r USING (batch_id)
                   WHERE b.pipeline = %(pipeline)s AND b.state = 'committed' AND r.added IS NULL)
