"""Which error of this package a failed Spark job is, by the class names in its text."""

from __future__ import annotations

import re

from offset_ledger import errors
from offset_ledger.errors import OffsetLedgerError, SparkFailed, SparkUnavailable, one_line

# An error that a task raised crosses from its Python worker as text.
_OURS = re.compile(r"offset_ledger\.errors\.(\w+): (.+)")
# What the client of a Spark Connect server is answered then; a server that was started again knows no earlier session.
_SERVER_GONE = ("StatusCode.UNAVAILABLE", "INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_")


def classify(error: BaseException) -> OffsetLedgerError:
    """The error to raise for a failed job, in one line."""
    text = str(error) if error.__cause__ is None else f"{error}\n{error.__cause__}"
    if any(name in text for name in _SERVER_GONE):
        return SparkUnavailable(
            "the Spark Connect server went away, or was started again, while it staged; nothing was committed; stage "
            f"the batch again ({one_line(text, 200)})"
        )
    ours = _OURS.findall(text)  # the last is what was raised, those before are its causes
    if ours and isinstance(kind := getattr(errors, ours[-1][0], None), type) and issubclass(kind, OffsetLedgerError):
        return kind(ours[-1][1].strip())
    cause = next((line.strip() for line in text.splitlines() if line.startswith("Caused by:")), "")
    first = cause or next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return SparkFailed(f"the Spark job failed: {first[:300]}; nothing was committed; see the log above")
