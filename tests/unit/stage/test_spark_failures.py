"""Which error a failed Spark job is."""

from __future__ import annotations

import pyarrow as pa
import pytest

from offset_ledger.errors import UnreadableTimestamp
from offset_ledger.stage.binary_copy import copy_binary
from offset_ledger.stage.spark_failures import classify


def test_a_moment_that_has_no_binary_form_is_an_unreadable_timestamp() -> None:
    first = pa.table({"_timestamp": pa.array([-(1 << 63)], pa.timestamp("us", "UTC"))})
    with pytest.raises(ValueError) as raised:
        list(copy_binary({"_timestamp": "timestamp with time zone"}, first))
    assert type(classify(raised.value)) is UnreadableTimestamp
