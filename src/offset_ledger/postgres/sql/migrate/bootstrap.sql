CREATE SCHEMA IF NOT EXISTS offset_ledger;
CREATE TABLE IF NOT EXISTS offset_ledger.migration (
    number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
