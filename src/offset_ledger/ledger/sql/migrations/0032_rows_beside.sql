-- Tables with the bookkeeping of rows whose own table has none, each named as its pipeline file.
CREATE SCHEMA offset_ledger_rows;
