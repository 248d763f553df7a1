"""The image and the Helm values of docs/add-to-airflow.md: the versions that the tests run, and paths that meet."""

from __future__ import annotations

import re

import yaml

from tests.paths import ROOT

PAGE = (ROOT / "docs/add-to-airflow.md").read_text()
(IMAGE,) = re.findall(r"^```dockerfile\n(.*?)^```$", PAGE, re.M | re.S)
VALUES = yaml.safe_load((ROOT / "deploy/values.yaml").read_text())


def locked(name: str) -> str:
    (version,) = re.findall(rf"^{name}==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)
    return str(version)


def test_the_image_has_the_versions_of_the_tests() -> None:
    named = dict(re.findall(r" ([a-z-]+)==(\S+)", IMAGE))
    assert named == {name: locked(name) for name in ("apache-airflow", "pyspark", "pyspark-client")}
    assert re.findall(r"^FROM apache/airflow:(\S+)-python3\.11$", IMAGE, re.M) == [locked("apache-airflow")]


def test_the_values_are_of_that_airflow_and_the_pipeline_files_are_in_its_dags_folder() -> None:
    assert VALUES["airflowVersion"] == VALUES["images"]["airflow"]["tag"] == locked("apache-airflow")
    assert re.findall(r"^COPY dags (\S+)$", IMAGE, re.M) == ["/opt/airflow/dags"]
    assert [each["name"] for each in VALUES["env"]] == ["OFFSET_LEDGER_REPORTS"]
    assert yaml.safe_load(VALUES["extraEnvFrom"]) == [{"secretRef": {"name": "offset-ledger-connections"}}]
