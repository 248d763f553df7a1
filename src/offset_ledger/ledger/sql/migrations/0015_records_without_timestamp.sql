-- Kafka's timestamp -1 says that a record has none; before, it was kept as the moment 1 ms before 1970.
ALTER TABLE offset_ledger.quarantine ALTER COLUMN "timestamp" DROP NOT NULL;
UPDATE offset_ledger.quarantine SET "timestamp" = NULL WHERE "timestamp" = '1969-12-31 23:59:59.999+00';
