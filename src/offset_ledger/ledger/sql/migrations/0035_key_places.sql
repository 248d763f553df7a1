-- Where the values of each column of the key are read, by its name. NULL in a pipeline of before this, until its next plan.
ALTER TABLE offset_ledger.pipeline ADD COLUMN key_places jsonb;
