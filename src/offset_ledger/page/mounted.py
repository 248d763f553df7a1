"""The page as Airflow's API server mounts it."""

from __future__ import annotations

import os
from pathlib import Path

from offset_ledger.page.access import rights
from offset_ledger.page.app import create_app
from offset_ledger.page.bundles import bundle_pipelines
from offset_ledger.page.pipelines import KnownPipelines, read_pipelines


def known() -> KnownPipelines:
    """The pipelines of ``$OFFSET_LEDGER_PIPELINES``, else those of the DAG bundles."""
    folder = os.environ.get("OFFSET_LEDGER_PIPELINES")
    return read_pipelines(Path(folder)) if folder else bundle_pipelines()


app = create_app(rights, known)
