"""The ledger: batches, cursors, staging, quarantine, decisions."""
