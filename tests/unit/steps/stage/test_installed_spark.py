"""pyspark and pyspark-client lay the same folder: of two versions neither is whole."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import PackageNotFoundError

import pytest

from offset_ledger.errors import SparkMismatch
from offset_ledger.outside.spark import home as spark_home
from offset_ledger.outside.spark.home import check_spark
from tests.paths import ROOT


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        try:
            return versions[name.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(name) from None

    monkeypatch.setattr(spark_home, "version", version)


def test_what_is_installed_here_is_one_spark() -> None:
    check_spark()


@pytest.mark.parametrize("versions", [{"pyspark": "4.0.0"}, {"pyspark_client": "4.0.0"}])
def test_one_of_them_alone_is_whole(versions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, **versions)
    check_spark()


def test_two_versions_in_one_folder_are_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, pyspark="4.0.5", pyspark_client="4.0.4")
    with pytest.raises(SparkMismatch) as raised:
        check_spark()
    assert str(raised.value) == (
        "pyspark 4.0.5 and pyspark-client 4.0.4 share one folder, so they have to be of one version; nothing was "
        "staged; run pip install --force-reinstall --no-deps pyspark==4.0.4 pyspark-client==4.0.4"
    )


@pytest.mark.full
def test_the_extra_resolves_to_one_version_of_both() -> None:
    command = [f"{ROOT}/.venv/bin/uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    resolved = subprocess.run(
        [*command, "--extra", "spark", "pyproject.toml"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    versions = dict(re.findall(r"^(pyspark|pyspark-client)==(.+)$", resolved, re.MULTILINE))
    assert versions["pyspark"] == versions["pyspark-client"]
