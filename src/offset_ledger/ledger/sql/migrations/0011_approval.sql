-- What a person approved: who, why, and the identity of what the gate had judged. A batch that is staged again keeps it.
ALTER TABLE offset_ledger.batch ADD COLUMN approval jsonb;
