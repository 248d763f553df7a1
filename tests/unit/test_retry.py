"""How long is retried, and what a wrong environment variable says."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from offset_ledger.base.retry import retry_seconds, retrying, retrying_for
from offset_ledger.errors import ConfigurationError, error_line, one_line
from tests.unit.test_progress import Terminal


def test_the_environment_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSET_LEDGER_RETRY_SECONDS", raising=False)
    assert retry_seconds() == 30
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "2.5")
    assert retry_seconds() == 2.5


def test_who_asked_says_how_long_in_a_process_of_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "a while")
    with retrying_for(2):
        assert retry_seconds() == 2
    with pytest.raises(ConfigurationError, match="found 'a while'"):
        retry_seconds()


@pytest.mark.parametrize("value", ["a while", "-1", "inf", "nan", ""])
def test_no_number_of_seconds(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", value)
    with pytest.raises(ConfigurationError, match=f"should be a number of seconds, found '{value}'"):
        retry_seconds()


def test_only_transient_errors_are_retried_and_only_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_RETRY_SECONDS", "30")
    attempts: list[type[Exception]] = []

    def fail(kind: type[Exception]) -> None:
        attempts.append(kind)
        raise kind("no")

    def retry(kind: type[Exception], max_seconds: float) -> int:
        attempts.clear()
        with pytest.raises(kind):
            retrying(lambda error: isinstance(error, OSError), "a server", max_seconds=max_seconds)(fail, kind)
        return len(attempts)

    assert retry(ValueError, 30) == 1
    assert retry(OSError, 0) == 1
    assert retry(OSError, 0.3) > 1


def away(times: int) -> Callable[[], str]:
    left = iter(range(times))

    def answer() -> str:
        if next(left, None) is not None:
            raise OSError("away")
        return "there"

    return answer


def waited_for(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Wait for a server that is away so often, with retries a second apart on a clock of the test's own."""
    seconds = iter(range(100))
    monkeypatch.setattr("tenacity.time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    retries = retrying(lambda error: isinstance(error, OSError), "a server", min_seconds=60)
    assert retries.copy(sleep=lambda _: None)(away(times)) == "there"


def test_a_wait_is_a_line_in_the_log_and_then_one_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    waited_for(monkeypatch, 25)
    assert caplog.messages == [f"waiting for a server (OSError), {at} of 60 s" for at in (1, 11, 21)]


def test_at_a_terminal_one_line_counts_and_is_gone_when_the_server_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr", out := Terminal())
    waited_for(monkeypatch, 3)
    assert out.getvalue().split("\r\x1b[K") == [
        "",
        *(f"waiting for a server (OSError), {at} of 60 s" for at in (1, 2, 3)),
        "",
    ]
    assert caplog.messages == []


def test_an_error_of_others_in_one_line() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert error_line(ValueError("ValueError: a\n  b")) == "ValueError: a b"
    assert one_line("x" * 400) == "x" * 300
