"""Which timestamps of Kafka's records can be staged, in milliseconds since 1970."""

from __future__ import annotations

from offset_ledger.errors import UnreadableRecord, UnreadableTimestamp

# Postgres has none before, and Spark, which counts microseconds, none after.
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000
# 15 October 1582: what is before, Spark shifts by the days between the Julian and the Gregorian calendar.
_GREGORIAN = -12_219_292_800_000


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


def check_exact(partition: int, offset: int, timestamp: int) -> None:
    """Check that Spark would read the timestamp as it is, so that it makes no difference who reads a record.

    Raises:
        UnreadableRecord: it would not.
        UnreadableTimestamp: as :func:`check_timestamp`.
    """
    check_timestamp(partition, offset, timestamp)
    if timestamp < _GREGORIAN:
        raise UnreadableRecord(
            f"record {partition}:{offset} has {timestamp}, expected 15 October 1582 or later: before, Spark uses the "
            "Julian calendar; nothing was committed"
        )
