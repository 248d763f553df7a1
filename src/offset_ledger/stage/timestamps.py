"""Which timestamps of Kafka's records can be staged, in milliseconds since 1970."""

from __future__ import annotations

from offset_ledger.errors import UnreadableTimestamp

# Postgres has none before, and Spark, which counts microseconds, none after.
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000


def check_timestamp(partition: int, offset: int, timestamp: int) -> None:
    """Check the timestamp of a record.

    Raises:
        UnreadableTimestamp: Spark or Postgres cannot represent it.
    """
    if not _EARLIEST <= timestamp <= _LATEST:
        raise UnreadableTimestamp(
            f"record {partition}:{offset} has {timestamp}, expected milliseconds since 1970 that Postgres and Spark "
            "can hold; nothing was committed; see UnreadableTimestamp in docs/runbook.md"
        )
