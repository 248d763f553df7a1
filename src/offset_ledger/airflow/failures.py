"""The package's errors as Airflow's: an error that a retry cannot fix fails the task at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from offset_ledger.errors import ContradictoryRequest, IncompleteStaging, OffsetLedgerError, TerminalError


def as_airflow(error: OffsetLedgerError) -> AirflowException:
    """AirflowFailException (no retry) for a terminal error, AirflowException (retried) for a transient one."""
    kind = AirflowFailException if isinstance(error, TerminalError) else AirflowException
    return kind(error.named)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise the package's errors from the block as Airflow's.

    A retry of a step after stage cannot fix incomplete staging: the task fails at once, and the next run, or clearing
    stage, stages the open batch again.
    """
    try:
        yield
    except IncompleteStaging as error:
        raise AirflowFailException(f"{error.named}; clear the task stage with what follows it") from error
    except ContradictoryRequest as error:
        raise as_airflow(error) from None  # a mistake in the form: the log shows one line, not two tracebacks
    except OffsetLedgerError as error:
        raise as_airflow(error) from error
