"""An error crosses the border of a process as the name of its class and its text, and is the same behind it."""

from __future__ import annotations

import pytest

from offset_ledger import errors
from offset_ledger.errors import OffsetLedgerError, PipelineFileError, PublishFailed, UnsafeSettings

OTHERS = {
    "PublishFailed": PublishFailed("orders", 1, [2, 3], "NotEnoughReplicas", aborted=False),
    **{name: getattr(errors, name)(["a.yaml:1: wrong", "a.yaml:2: too"]) for name in ("RecordFileError",)},
    "PipelineFileError": PipelineFileError(["a.yaml:1: wrong", "a.yaml:2: too"]),
    "UnsafeSettings": UnsafeSettings(["loss: acks", "copies: retries"]),
}


@pytest.mark.parametrize("name", errors.names())
def test_an_error_is_the_same_behind_the_border(name: str) -> None:
    error: OffsetLedgerError = OTHERS.get(name) or getattr(errors, name)("expected a: b, found c")
    revived = errors.revive(**errors.failure_of(error))
    assert type(revived) is type(error)
    assert (str(revived), revived.exit_code) == (str(error), error.exit_code)
    assert getattr(revived, "problems", None) == getattr(error, "problems", None)
    assert revived.named == f"{name}: {error}"


@pytest.mark.parametrize("name", ["ValueError", "one_line", "Sequence", "no_such_name"])
def test_what_is_no_error_of_this_package_is_none_behind_it(name: str) -> None:
    assert errors.revive(name, "text") is None
