"""Exactly-once batch ingestion from Kafka to Postgres.

The names below, with every error of :mod:`offset_ledger.errors`, are the public ones (docs/api.md). Each is imported
when it is first used, so that a DAG file pays for the DAG builders alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from offset_ledger import errors as _errors

if TYPE_CHECKING:
    from offset_ledger.base.version import __version__ as __version__
    from offset_ledger.errors import *  # noqa: F403
    from offset_ledger.interfaces.airflow.assets import table_asset as table_asset
    from offset_ledger.interfaces.airflow.dags import all_dags as all_dags
    from offset_ledger.interfaces.airflow.dags import audit_dags as audit_dags
    from offset_ledger.interfaces.airflow.dags import build_audit_dag as build_audit_dag
    from offset_ledger.interfaces.airflow.dags import build_daily_report_dag as build_daily_report_dag
    from offset_ledger.interfaces.airflow.dags import daily_report_dags as daily_report_dags
    from offset_ledger.interfaces.airflow.dags import ingest_dags as ingest_dags
    from offset_ledger.interfaces.airflow.dags import redrive_dags as redrive_dags
    from offset_ledger.interfaces.airflow.ingest_dag import build_ingest_dag as build_ingest_dag
    from offset_ledger.interfaces.airflow.redrive_dag import build_redrive_dag as build_redrive_dag
    from offset_ledger.interfaces.api import Verified as Verified
    from offset_ledger.interfaces.api import batches as batches
    from offset_ledger.interfaces.api import check as check
    from offset_ledger.interfaces.api import ingest as ingest
    from offset_ledger.interfaces.api import pipelines_of as pipelines_of
    from offset_ledger.interfaces.api import preview as preview
    from offset_ledger.interfaces.api import quarantine as quarantine
    from offset_ledger.interfaces.api import replay as replay
    from offset_ledger.interfaces.api import status as status
    from offset_ledger.interfaces.api import verify as verify
    from offset_ledger.model.ranges import OffsetRange as OffsetRange
    from offset_ledger.operations.check.arrow_tables import Preview as Preview
    from offset_ledger.operations.status.status import PipelineStatus as PipelineStatus
    from offset_ledger.pipeline_file.parse import find_pipeline as find_pipeline
    from offset_ledger.pipeline_file.parse import parse_all as parse_all
    from offset_ledger.pipeline_file.parse import parse_pipeline as parse_pipeline
    from offset_ledger.pipeline_file.pipeline import Pipeline as Pipeline
    from offset_ledger.steps.run.ingest import Ingested as Ingested

_MODULES = {
    "offset_ledger.interfaces.airflow.assets": ("table_asset",),
    "offset_ledger.interfaces.airflow.dags": (
        *("all_dags", "audit_dags", "build_audit_dag", "build_daily_report_dag"),
        *("daily_report_dags", "ingest_dags", "redrive_dags"),
    ),
    "offset_ledger.interfaces.airflow.ingest_dag": ("build_ingest_dag",),
    "offset_ledger.interfaces.airflow.redrive_dag": ("build_redrive_dag",),
    "offset_ledger.interfaces.api": (
        *("Verified", "batches", "check", "ingest", "pipelines_of"),
        *("preview", "quarantine", "replay", "status", "verify"),
    ),
    "offset_ledger.operations.check.arrow_tables": ("Preview",),
    "offset_ledger.pipeline_file.pipeline": ("Pipeline",),
    "offset_ledger.pipeline_file.parse": ("find_pipeline", "parse_all", "parse_pipeline"),
    "offset_ledger.errors": tuple(_errors.names()),
    "offset_ledger.model.ranges": ("OffsetRange",),
    "offset_ledger.steps.run.ingest": ("Ingested",),
    "offset_ledger.operations.status.status": ("PipelineStatus",),
    "offset_ledger.base.version": ("__version__",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
