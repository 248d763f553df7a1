"""The errors that users meet: one line that says what was expected, what was found and what to do.

A ``TerminalError`` stays until somebody changes something, so Airflow must not retry it. A ``TransientError`` may go
away by itself: retry it.
"""

from collections.abc import Sequence
from typing import Any, TypeGuard


class OffsetLedgerError(Exception):
    """Base of all errors of this package; ``str(error)`` is the line to show."""

    exit_code = 1

    @property
    def named(self) -> str:
        """The error's line after the name of its class, which is a heading of docs/runbook.md."""
        return f"{type(self).__name__}: {self}"


class TerminalError(OffsetLedgerError):
    """An error that retrying cannot mend; somebody has to change something."""


class TransientError(OffsetLedgerError):
    """An error that may go away by itself: retry. Nothing is lost and nothing is half done."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h


class UnexpectedError(OffsetLedgerError):
    """An error that this package does not expect; worth a bug report."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h


def one_line(text: object, limit: int = 300) -> str:
    """The text, such as that of an error of another library, without line breaks and cut to ``limit`` characters."""
    return " ".join(str(text).split())[:limit]


def error_line(error: BaseException) -> str:
    """The class and the text of another library's error, in one line."""
    name = type(error).__name__
    text = " ".join(str(error).split()).removeprefix(f"{name}: ")
    return f"{name}: {one_line(text)}"


def names() -> list[str]:
    """Return the name of every error of this package."""
    return [name for name, value in globals().items() if _is_error(value)]


def failure_of(error: OffsetLedgerError) -> dict[str, str]:
    """Return the error as it leaves a process: the name of its class, and its text."""
    return {"error": type(error).__name__, "message": str(error)}


def revive(error: str, message: str) -> OffsetLedgerError | None:
    """Return the error of that class with that text; None if this package has no such class."""
    kind = globals().get(error)
    # Some are made of other things than their text, so none is initialized.
    return BaseException.__new__(kind, message) if _is_error(kind) else None


def _is_error(value: object) -> TypeGuard[type[OffsetLedgerError]]:
    return isinstance(value, type) and issubclass(value, OffsetLedgerError)


class _Problems:
    """The attributes of an error of several mistakes besides its text."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))  # type: ignore[call-arg]

    @property
    def problems(self) -> tuple[str, ...]:
        """The mistakes, each in a line."""
        return tuple(str(self).split("\n"))


# -- configuration ---------------------------------------------------------------------------------------------


class PipelineFileError(_Problems, TerminalError):
    """A pipeline file with mistakes, all of them, each with its line.

    ``problems`` are lines of the form ``file:line: what is wrong; what would be right``.
    """


class ConfigurationError(TerminalError):
    """A connection, a suite file or an environment variable is missing or malformed."""


class UsageError(TerminalError):
    """The command line has a verb, an option or a value that it does not know, or lacks one."""

    exit_code = 2


class ContradictoryRequest(TerminalError):
    """The request for a run contradicts itself, or lacks something."""


class TargetMismatch(TerminalError):
    """The target table exists with other columns than the pipeline file declares."""


# -- servers ---------------------------------------------------------------------------------------------------


class TargetLocked(TransientError):
    """Other sessions hold the target table, which has to be changed before rows can be merged."""


class BrokerUnavailable(TransientError):
    """No Kafka broker of the connection answered."""


class RegistryUnavailable(TransientError):
    """The schema registry did not answer, or something else answered in its place."""


class DatabaseUnavailable(TransientError):
    """Postgres did not answer, or ended the session."""


class UnknownHost(BrokerUnavailable, DatabaseUnavailable):
    """The host name of a connection does not resolve."""


class AccessDenied(TerminalError):
    """A server refuses the login of a connection, or the login lacks a right."""


class DatabaseFull(DatabaseUnavailable):
    """A disk of the Postgres server has no room left."""


class UnknownOutcome(TransientError):
    """The connection was lost during COMMIT and the ledger could not be read again yet."""


class StackError(TerminalError):
    """The local stack could not be started, or only a part of it is up."""


class SparkFailed(TransientError):
    """The Spark application failed for a reason that is no error of this package."""


class SparkUnavailable(TransientError):
    """The Spark Connect server does not answer, or went away while it staged."""


class SparkMismatch(TerminalError):
    """Versions differ: the Spark Connect server's and its client's, or those of pyspark and pyspark-client."""


# -- schemas ---------------------------------------------------------------------------------------------------


class SchemaRejected(TerminalError):
    """The schema registry refuses a schema: it is invalid, or not compatible with earlier versions of its subject."""


class UnusableSchema(TerminalError):
    """A schema of the registry is too large, of another language, or refers to what is not there."""


# -- topics and offsets ----------------------------------------------------------------------------------------


class UnknownTopic(TerminalError):
    """The topic of the pipeline does not exist on this cluster."""


class TopicMismatch(TerminalError):
    """The topic exists with another number of partitions, or cannot be created as asked."""


class LostRange(TerminalError):
    """Offsets the cursor still needs are gone, or are no longer the same records."""


class TopicRecreated(LostRange):
    """The topic id (or the cluster id) is not the one the cursors belong to."""


class OffsetExpired(LostRange):
    """The log now starts above the cursor."""


class LogEndBelowCursor(LostRange):
    """The log ends below the cursor."""


class LogTruncated(LostRange):
    """The leader epoch of the cursor is unknown to the log: an unclean election cut committed offsets off."""


class PartitionVanished(LostRange):
    """A partition that has a cursor is missing from the topic."""


class UnexplainedGap(LostRange):
    """Offsets without a record on a topic that is neither compacted nor transactional."""


class TombstonesMayBeGone(LostRange):
    """Offsets without a record were read so late that compaction may have removed tombstones there."""


class SchemaChanged(TerminalError):
    """The registry has another schema under an id than when records with it were first read."""


class UndecidedSchema(TerminalError):
    """Records have a schema that the columns do not fit, and only a person can decide what becomes of them."""


class UnreadableRecords(TerminalError):
    """A record batch of the topic that the client cannot unpack."""


class NoStartOffset(TerminalError):
    """``start: none`` and a partition has no cursor."""


class OpenTransaction(TransientError):
    """An open transaction hides what other producers have committed after its start."""


# -- publishing ------------------------------------------------------------------------------------------------


class UnsafeSettings(_Problems, TerminalError):
    """A producer's settings that contradict each other, or that can lose, repeat, reorder or block; all of them."""


class UnserializableValue(TerminalError):
    """A key or value is not what its serializer writes or reads."""


class RecordFileError(_Problems, TerminalError):
    """A file of records has lines that cannot be published; none of it was sent."""


class JournalMismatch(TerminalError):
    """The transactional id belongs to another file, whose publication is not finished."""


class PublishFailed(TransientError):
    """Not every record was acknowledged; ``unconfirmed`` are the records that may or may not be in the topic.

    ``refused``: one can never be sent as it is, so trying again does not help (exit code 1).
    """

    def __init__(
        self,
        topic: str,
        acknowledged: int,
        unconfirmed: Sequence[Any],
        cause: str,
        aborted: bool,
        refused: bool = False,
    ) -> None:
        self.acknowledged = acknowledged
        self.unconfirmed = tuple(unconfirmed)
        self.exit_code = TerminalError.exit_code if refused else TransientError.exit_code
        again = "correct what is refused, which can never be sent as it is, and publish" if refused else "publish"
        then = (
            f"the transaction is aborted, so readers of committed data see none of them: {again} all of it again"
            if aborted
            else f"{again} these again{'' if refused else ' when the brokers are well'}: their event ids make copies "
            "harmless"
        )
        super().__init__(
            f"publishing to {topic!r}: {acknowledged} records were acknowledged and {len(self.unconfirmed)} were not "
            f"({cause}); {then}"
        )


class TransactionOutcomeUnknown(TransientError):
    """The broker did not say whether the transaction was committed or aborted."""


class ProducerFenced(TerminalError):
    """A newer producer with the same transactional id has begun; this one can commit nothing."""


# -- batches ---------------------------------------------------------------------------------------------------


class UnknownBatch(TerminalError):
    """No such batch, pipeline or range in the ledger."""


class StateConflict(TerminalError):
    """The batch is not in the state that this transition starts from."""


class BatchInUse(TransientError):
    """Another run has the batch, and is alive."""


class Fenced(TerminalError):
    """A newer attempt has claimed the batch; this one may commit nothing."""


class IncompleteStaging(TransientError):
    """Slices are missing, or the staging table holds other rows than the slices say."""


class BatchRejected(TerminalError):
    """The quality gate rejected the batch: nothing was merged and no cursor moved."""

    exit_code = 3


class LedgerViolation(TerminalError):
    """An invariant of the ledger does not hold."""
