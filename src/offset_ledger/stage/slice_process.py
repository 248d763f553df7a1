"""Slices staged by another Python process, because one decodes on one core only.

The process is this module: it reads pickled requests from its standard input and writes pickled answers to its standard
output. It ends when its input does, also where the process that asked was killed.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import IO, TYPE_CHECKING, Any

from offset_ledger import errors
from offset_ledger.connections import Connection
from offset_ledger.errors import IncompleteStaging, OffsetLedgerError, UnexpectedError, error_line
from offset_ledger.pandas_later import this_process_is_ours
from offset_ledger.progress import OnProgress
from offset_ledger.stage.runs import NumberedSlice, Slices
from offset_ledger.stage.slice_reader import WriteSlices, slice_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offset_ledger.stage.slices import SliceTask

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Advanced:
    offsets: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """A slice, staged; or the class of an error of this package, by its name, and its line."""

    error: str | None = None
    message: str = ""


@contextmanager
def slice_process(kafka: Connection, topic: str, task: SliceTask, advance: OnProgress) -> Iterator[WriteSlices]:
    """What stages slices in a process of its own, which ends with the block; it raises what staging there raised.

    Secrets reach the process through a pipe.
    """
    command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    requests, answers = process.stdin, process.stdout

    def write(slices: Slices) -> None:
        for slice_no, wanted in slices:
            try:
                _send(requests, (slice_no, wanted))
                while isinstance(answer := pickle.load(answers), _Advanced):
                    advance(answer.offsets)
            except (OSError, EOFError, ValueError) as error:
                raise _died(process, slice_no) from error
            if answer.error:
                raise getattr(errors, answer.error)(answer.message)

    try:
        _send(requests, (kafka, topic, task))
        yield write
    finally:
        process.kill()  # it is idle, or what it writes is not wanted any more: an uncommitted slice is rolled back
        process.wait()
        for pipe in (requests, answers):
            with suppress(OSError):  # of what was not sent any more
                pipe.close()


def _died(process: subprocess.Popen[bytes], slice_no: int) -> IncompleteStaging:
    code = process.wait()
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return IncompleteStaging(
        f"slice {slice_no}: the process that staged it ended with {how}; nothing was committed; stage the batch again, "
        "with fewer processes (limits.processes) if the machine lacks memory"
    )


def _send(pipe: IO[bytes], message: Any) -> None:
    pickle.dump(message, pipe)
    pipe.flush()


def main() -> None:
    """Stage the slices that standard input asks for."""
    this_process_is_ours()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks is interrupted too, and ends this one
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever is printed here is no answer
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=[requests], daemon=True).start()
    kafka, topic, task = requests.get()
    with slice_reader(kafka, topic, task, lambda offsets: _send(answers, _Advanced(offsets))) as write:
        _send(answers, _failed(write, _Requested(requests, answers)))
        Event().wait()  # nobody asks after an error; the process ends with its input


class _Requested:
    """The slices that are asked for, of which each is answered when the next one is waited for."""

    def __init__(self, requests: SimpleQueue[Any], answers: IO[bytes]) -> None:
        self._requests, self._answers = requests, answers

    def __iter__(self) -> Iterator[NumberedSlice]:
        while True:
            yield self._requests.get()
            _send(self._answers, _Ended())

    def following(self) -> None:
        """Nothing is known of the next one before this one is answered."""


def _receive(requests: SimpleQueue[Any]) -> None:
    while True:
        try:
            requests.put(pickle.load(sys.stdin.buffer))
        except EOFError:
            os._exit(0)


def _failed(write: WriteSlices, slices: Slices) -> _Ended:
    """Why the slices could not be staged: there is always another one."""
    try:
        write(slices)
    except OffsetLedgerError as error:
        return _Ended(type(error).__name__, str(error))
    except Exception as error:
        log.exception("staging in a process")
        return _Ended(UnexpectedError.__name__, error_line(error))
    raise AssertionError("requests never end")
