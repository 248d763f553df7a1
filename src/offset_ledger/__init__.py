"""Exactly-once batch ingestion from Kafka to Postgres.

The names below are the public ones (docs/api.md). Each is imported when it is first used, so that a DAG file pays for
the DAG builders alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offset_ledger.airflow.audit_dag import build_audit_dag as build_audit_dag
    from offset_ledger.airflow.dags import audit_dags as audit_dags
    from offset_ledger.airflow.dags import daily_report_dags as daily_report_dags
    from offset_ledger.airflow.dags import ingest_dags as ingest_dags
    from offset_ledger.airflow.dags import redrive_dags as redrive_dags
    from offset_ledger.airflow.daily_report_dag import build_daily_report_dag as build_daily_report_dag
    from offset_ledger.airflow.ingest_dag import build_ingest_dag as build_ingest_dag
    from offset_ledger.airflow.redrive_dag import build_redrive_dag as build_redrive_dag
    from offset_ledger.api import Verified as Verified
    from offset_ledger.api import check as check
    from offset_ledger.api import ingest as ingest
    from offset_ledger.api import pipelines_of as pipelines_of
    from offset_ledger.api import replay as replay
    from offset_ledger.api import status as status
    from offset_ledger.api import verify as verify
    from offset_ledger.config.model import Pipeline as Pipeline
    from offset_ledger.config.parse import find_pipeline as find_pipeline
    from offset_ledger.config.parse import parse_all as parse_all
    from offset_ledger.config.parse import parse_pipeline as parse_pipeline
    from offset_ledger.errors import AccessDenied as AccessDenied
    from offset_ledger.errors import BatchRejected as BatchRejected
    from offset_ledger.errors import BrokerUnavailable as BrokerUnavailable
    from offset_ledger.errors import ConfigurationError as ConfigurationError
    from offset_ledger.errors import ContradictoryRequest as ContradictoryRequest
    from offset_ledger.errors import DatabaseFull as DatabaseFull
    from offset_ledger.errors import DatabaseUnavailable as DatabaseUnavailable
    from offset_ledger.errors import Fenced as Fenced
    from offset_ledger.errors import IncompleteStaging as IncompleteStaging
    from offset_ledger.errors import JournalMismatch as JournalMismatch
    from offset_ledger.errors import LedgerViolation as LedgerViolation
    from offset_ledger.errors import LogEndBelowCursor as LogEndBelowCursor
    from offset_ledger.errors import LogTruncated as LogTruncated
    from offset_ledger.errors import LostRange as LostRange
    from offset_ledger.errors import NoStartOffset as NoStartOffset
    from offset_ledger.errors import OffsetExpired as OffsetExpired
    from offset_ledger.errors import OffsetLedgerError as OffsetLedgerError
    from offset_ledger.errors import OpenTransaction as OpenTransaction
    from offset_ledger.errors import PartitionVanished as PartitionVanished
    from offset_ledger.errors import PipelineFileError as PipelineFileError
    from offset_ledger.errors import ProducerFenced as ProducerFenced
    from offset_ledger.errors import PublishFailed as PublishFailed
    from offset_ledger.errors import RecordFileError as RecordFileError
    from offset_ledger.errors import RegistryUnavailable as RegistryUnavailable
    from offset_ledger.errors import SchemaChanged as SchemaChanged
    from offset_ledger.errors import SchemaRejected as SchemaRejected
    from offset_ledger.errors import SparkFailed as SparkFailed
    from offset_ledger.errors import SparkMismatch as SparkMismatch
    from offset_ledger.errors import SparkUnavailable as SparkUnavailable
    from offset_ledger.errors import StackError as StackError
    from offset_ledger.errors import StateConflict as StateConflict
    from offset_ledger.errors import TargetLocked as TargetLocked
    from offset_ledger.errors import TargetMismatch as TargetMismatch
    from offset_ledger.errors import TerminalError as TerminalError
    from offset_ledger.errors import TombstonesMayBeGone as TombstonesMayBeGone
    from offset_ledger.errors import TopicMismatch as TopicMismatch
    from offset_ledger.errors import TopicRecreated as TopicRecreated
    from offset_ledger.errors import TransactionOutcomeUnknown as TransactionOutcomeUnknown
    from offset_ledger.errors import TransientError as TransientError
    from offset_ledger.errors import UndecidedSchema as UndecidedSchema
    from offset_ledger.errors import UnexpectedError as UnexpectedError
    from offset_ledger.errors import UnexplainedGap as UnexplainedGap
    from offset_ledger.errors import UnknownBatch as UnknownBatch
    from offset_ledger.errors import UnknownOutcome as UnknownOutcome
    from offset_ledger.errors import UnknownTopic as UnknownTopic
    from offset_ledger.errors import UnreadableRecords as UnreadableRecords
    from offset_ledger.errors import UnsafeSettings as UnsafeSettings
    from offset_ledger.errors import UnserializableValue as UnserializableValue
    from offset_ledger.errors import UnusableSchema as UnusableSchema
    from offset_ledger.errors import UsageError as UsageError
    from offset_ledger.model.ranges import OffsetRange as OffsetRange
    from offset_ledger.operations.ingest import Ingested as Ingested
    from offset_ledger.operations.status import PipelineStatus as PipelineStatus
    from offset_ledger.version import __version__ as __version__

_MODULES = {
    "offset_ledger.airflow.audit_dag": ("build_audit_dag",),
    "offset_ledger.airflow.dags": (
        "audit_dags",
        "daily_report_dags",
        "ingest_dags",
        "redrive_dags",
    ),
    "offset_ledger.airflow.daily_report_dag": ("build_daily_report_dag",),
    "offset_ledger.airflow.ingest_dag": ("build_ingest_dag",),
    "offset_ledger.airflow.redrive_dag": ("build_redrive_dag",),
    "offset_ledger.api": (
        "Verified",
        "check",
        "ingest",
        "pipelines_of",
        "replay",
        "status",
        "verify",
    ),
    "offset_ledger.config.model": ("Pipeline",),
    "offset_ledger.config.parse": (
        "find_pipeline",
        "parse_all",
        "parse_pipeline",
    ),
    "offset_ledger.errors": (
        "AccessDenied",
        "BatchRejected",
        "BrokerUnavailable",
        "ConfigurationError",
        "ContradictoryRequest",
        "DatabaseFull",
        "DatabaseUnavailable",
        "Fenced",
        "IncompleteStaging",
        "JournalMismatch",
        "LedgerViolation",
        "LogEndBelowCursor",
        "LogTruncated",
        "LostRange",
        "NoStartOffset",
        "OffsetExpired",
        "OffsetLedgerError",
        "OpenTransaction",
        "PartitionVanished",
        "PipelineFileError",
        "ProducerFenced",
        "PublishFailed",
        "RecordFileError",
        "RegistryUnavailable",
        "SchemaChanged",
        "SchemaRejected",
        "SparkFailed",
        "SparkMismatch",
        "SparkUnavailable",
        "StackError",
        "StateConflict",
        "TargetLocked",
        "TargetMismatch",
        "TerminalError",
        "TombstonesMayBeGone",
        "TopicMismatch",
        "TopicRecreated",
        "TransactionOutcomeUnknown",
        "TransientError",
        "UnexpectedError",
        "UndecidedSchema",
        "UnexplainedGap",
        "UnknownBatch",
        "UnknownOutcome",
        "UnknownTopic",
        "UsageError",
        "UnreadableRecords",
        "UnsafeSettings",
        "UnserializableValue",
        "UnusableSchema",
    ),
    "offset_ledger.model.ranges": ("OffsetRange",),
    "offset_ledger.operations.ingest": ("Ingested",),
    "offset_ledger.operations.status": ("PipelineStatus",),
    "offset_ledger.version": ("__version__",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AccessDenied",
    "BatchRejected",
    "BrokerUnavailable",
    "ConfigurationError",
    "ContradictoryRequest",
    "DatabaseFull",
    "DatabaseUnavailable",
    "Fenced",
    "IncompleteStaging",
    "Ingested",
    "JournalMismatch",
    "LedgerViolation",
    "LogEndBelowCursor",
    "LogTruncated",
    "LostRange",
    "NoStartOffset",
    "OffsetExpired",
    "OffsetLedgerError",
    "OffsetRange",
    "OpenTransaction",
    "PartitionVanished",
    "Pipeline",
    "PipelineFileError",
    "PipelineStatus",
    "ProducerFenced",
    "PublishFailed",
    "RecordFileError",
    "RegistryUnavailable",
    "SchemaChanged",
    "SchemaRejected",
    "SparkFailed",
    "SparkMismatch",
    "SparkUnavailable",
    "StackError",
    "StateConflict",
    "TargetLocked",
    "TargetMismatch",
    "TerminalError",
    "TombstonesMayBeGone",
    "TopicMismatch",
    "TopicRecreated",
    "TransactionOutcomeUnknown",
    "TransientError",
    "UndecidedSchema",
    "UnexpectedError",
    "UnexplainedGap",
    "UnknownBatch",
    "UnknownOutcome",
    "UnknownTopic",
    "UnreadableRecords",
    "UnsafeSettings",
    "UnserializableValue",
    "UnusableSchema",
    "UsageError",
    "Verified",
    "__version__",
    "audit_dags",
    "build_audit_dag",
    "build_daily_report_dag",
    "build_ingest_dag",
    "build_redrive_dag",
    "check",
    "daily_report_dags",
    "find_pipeline",
    "ingest",
    "ingest_dags",
    "parse_all",
    "parse_pipeline",
    "pipelines_of",
    "redrive_dags",
    "replay",
    "status",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
