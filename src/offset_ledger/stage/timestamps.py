"""Which timestamps of Kafka's records can be staged."""

from __future__ import annotations

from typing import Any

from offset_ledger.errors import UnreadableRecord, UnreadableTimestamp

# Milliseconds: Postgres has none before, and Spark, which counts microseconds, none after.
_EARLIEST, _LATEST = -210_866_803_200_000, (2**63 - 1) // 1000
# 15 October 1582: what is before, Spark shifts by the days between the Julian and the Gregorian calendar.
_GREGORIAN = -12_219_292_800_000


def check_timestamp(record: Any) -> None:
    """Check the timestamp of a record, as kafka-python has it.

    Raises:
        UnreadableTimestamp: Spark or Postgres cannot represent it.
    """
    if not _EARLIEST <= record.timestamp <= _LATEST:
        raise UnreadableTimestamp(
            f"record {record.partition}:{record.offset} has {record.timestamp}, expected milliseconds since 1970 that "
            "Postgres and Spark can hold; nothing was committed; see UnreadableTimestamp in docs/runbook.md"
        )


def check_is_exact(record: Any) -> None:
    """Check that Spark would read the timestamp as it is, so that who reads a record makes no difference.

    Raises:
        UnreadableRecord: it would not.
        UnreadableTimestamp: as :func:`check_timestamp`.
    """
    check_timestamp(record)
    if record.timestamp < _GREGORIAN:
        raise UnreadableRecord(
            f"record {record.partition}:{record.offset} has {record.timestamp}, before 15 October 1582, where Spark uses "
            "the Julian calendar; nothing was committed"
        )
