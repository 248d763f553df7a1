"""Postgres: the ledger, the target table, and all SQL, which is in the folder ``sql``."""
