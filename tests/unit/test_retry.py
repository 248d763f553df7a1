"""How long is retried, and what a wrong environment variable says."""

from __future__ import annotations

import pytest

from offset_ledger.errors import ConfigurationError, error_line, one_line
from offset_ledger.retry import retry_seconds, retrying, retrying_for


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


def test_the_old_name_of_the_variable_leads_to_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_PATIENCE", "5")
    with pytest.raises(ConfigurationError, match="OFFSET_LEDGER_PATIENCE is now called OFFSET_LEDGER_RETRY_SECONDS"):
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


def test_an_error_of_others_in_one_line() -> None:
    assert one_line(ValueError("a\n  b")) == "a b"
    assert error_line(ValueError("ValueError: a\n  b")) == "ValueError: a b"
    assert one_line("x" * 400) == "x" * 300
