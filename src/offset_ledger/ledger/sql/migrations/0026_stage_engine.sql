-- Who staged the batch, and why that engine was chosen; NULL before it was claimed, and for batches of earlier releases.
ALTER TABLE offset_ledger.batch
    ADD COLUMN engine text CHECK (engine IN ('spark', 'process')),
    ADD COLUMN engine_reason text,
    ADD CHECK ((engine IS NULL) = (engine_reason IS NULL));
