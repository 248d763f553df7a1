"""Findings of the doctor, and its checks: each for a bounded time, and none keeps the others from running."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import StrEnum

from offset_ledger.errors import OffsetLedgerError, error_line

log = logging.getLogger(__name__)

SECONDS = 30.0


class Level(StrEnum):
    """A problem stops a pipeline, now or at its next batch; a warning may, once something else happens."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one check about ``subject``; ``remedy`` is what to do, None if there is nothing to do."""

    subject: str
    level: Level
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name. It is skipped where the check that it ``needs`` could not be done.

    ``seconds`` is its own limit, if it has another than the others.
    """

    name: str
    run: Callable[[], Iterable[Finding]]
    needs: str | None = None
    seconds: float | None = None


def ok(subject: str, text: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(subject, Level.OK, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding about what works now, and may not later."""
    return Finding(subject, Level.WARNING, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    """A pipeline stops at this."""
    return Finding(subject, Level.PROBLEM, text, remedy)


def run_checks(checks: Sequence[Check], seconds: float = SECONDS) -> Iterator[Finding]:
    """Yield the findings of all checks in their order, each as soon as it is there."""
    undone: set[str] = set()
    for check in checks:
        if check.needs in undone:
            undone.add(check.name)
            yield Finding(check.name, Level.SKIPPED, f"not checked, because of: {check.needs}")
            continue
        run, timeout = _Run(), check.seconds or seconds
        thread = threading.Thread(target=copy_context().run, args=(run.complete, check), daemon=True)
        thread.start()
        thread.join(timeout)
        findings, hangs = list(run.findings), thread.is_alive()
        if hangs:
            hung = f"no answer within {timeout:.0f} s"
            findings.append(problem(check.name, hung, "look whether a firewall or a proxy is in between"))
        if hangs or not run.done:
            undone.add(check.name)
        yield from findings


@dataclass(slots=True)
class _Run:
    findings: list[Finding] = field(default_factory=list)
    done: bool = False

    def complete(self, check: Check) -> None:
        try:
            self.findings.extend(check.run())
            self.done = True
        except OffsetLedgerError as error:
            name = type(error).__name__
            self.findings.append(problem(check.name, error.named, f"docs/runbook.md explains {name}"))
        except Exception as error:
            log.info("", exc_info=error)
            self.findings.append(problem(check.name, error_line(error), "report it, with the output of --verbose"))
