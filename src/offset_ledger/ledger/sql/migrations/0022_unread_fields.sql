-- The fields of a slice's rows that nothing reads: {records, sampled, fields: [[path, records]], more}. Of so many rows, so many
-- were looked at, and so many of these had each field; more: there were others. NULL where nothing was counted.
ALTER TABLE offset_ledger.slice ADD COLUMN unread jsonb;
