-- Whether the event ids of the table can be compared with what the batches added: all have counted, or the table was counted.
SELECT EXISTS (SELECT FROM offset_ledger.table_count WHERE pipeline = %(pipeline)s)
    OR NOT EXISTS (SELECT FROM offset_ledger.batch_range
                   WHERE pipeline = %(pipeline)s AND inserted IS NOT NULL AND added IS NULL)
