"""The ledger in Airflow's UI. Where Airflow has loaded this file, the package's entry point registers nothing."""

from offset_ledger.interfaces.page.plugin import OffsetLedgerPlugin

__all__ = ["OffsetLedgerPlugin"]
