"""The ledger in Postgres: batches, cursors, staging, quarantine, decisions; all SQL is in its folder sql."""
