-- The columns of its table that a pipeline has ever written: one that its file declares no more is set to NULL with each
-- row that is updated, so that no row holds values of two records.
CREATE TABLE offset_ledger.declared_column (
    pipeline text NOT NULL REFERENCES offset_ledger.pipeline,
    name     text NOT NULL,
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, name)
);

-- NULL: another pipeline took the table over before this one had committed anything into it.
ALTER TABLE offset_ledger.pipeline ALTER COLUMN target DROP NOT NULL;
