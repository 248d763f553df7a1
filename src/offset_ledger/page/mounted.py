"""The page as Airflow's API server mounts it."""

from __future__ import annotations

from pathlib import Path

from airflow.configuration import conf

from offset_ledger.page.access import rights
from offset_ledger.page.app import create_app
from offset_ledger.page.pipelines import pipelines_folder

app = create_app(rights, pipelines_folder(Path(conf.get_mandatory_value("core", "dags_folder"))))
