"""Commit: rows, quarantine, balance sheet, cursors and ledger in one Postgres transaction."""
