"""Our errors as Airflow's: what a retry cannot help fails the task at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from offset_ledger.errors import ContradictoryRequest, IncompleteStaging, OffsetLedgerError, TerminalError


def as_airflow(error: OffsetLedgerError) -> AirflowException:
    """AirflowFailException (no retry) for a terminal error, AirflowException (retried) for a transient one."""
    kind = AirflowFailException if isinstance(error, TerminalError) else AirflowException
    return kind(f"{type(error).__name__}: {error}")


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise our errors from the block as Airflow's.

    A step after stage cannot mend incomplete staging by running again: it fails at once, and the next run, or clearing
    stage, stages the open batch anew.
    """
    try:
        yield
    except IncompleteStaging as error:
        raise AirflowFailException(f"IncompleteStaging: {error}; clear the task stage with what follows it") from error
    except ContradictoryRequest as error:
        raise as_airflow(error) from None  # a person's slip: in the log they read one line, not two traces
    except OffsetLedgerError as error:
        raise as_airflow(error) from error
