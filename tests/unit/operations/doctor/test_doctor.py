"""What the doctor concludes from facts, and how it runs its checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from offset_ledger.errors import BrokerUnavailable
from offset_ledger.operations.doctor import installation, servers
from offset_ledger.operations.doctor.finding import Check, Finding, Level, ok, run_checks, warning
from offset_ledger.operations.doctor.run import check_stage
from offset_ledger.pipeline_file.pipeline import Stage, StageEngine
from tests.fixtures.staged import a_pipeline

GOOD = servers.Server(180004, "UTF8", in_recovery=False, pooled=False, ahead=timedelta(0))


def levels(found: Iterator[Finding]) -> dict[str, str]:
    return {finding.subject: str(finding.level) for finding in found}


@pytest.mark.parametrize(
    ("changes", "subject", "level", "found"),
    [
        ({"version": 140010}, "pg", "problem", "PostgreSQL 14.10, expected"),
        ({"encoding": "SQL_ASCII"}, "pg: encoding", "problem", "SQL_ASCII, which cannot hold every text"),
        ({"in_recovery": True}, "pg: role", "problem", "a standby, which only reads"),
        ({"pooled": True}, "pg: pooler", "ok", "a pooler such as PgBouncer is in between, and pools sessions"),
        ({"ahead": timedelta(seconds=1.9)}, "pg: clock", "ok", "within 2 s of that of this machine"),
        ({"ahead": timedelta(seconds=-3)}, "pg: clock", "warning", "3 s behind that of this machine"),
        ({"ahead": timedelta(hours=1)}, "pg: clock", "problem", "1 h ahead of that of this machine"),
    ],
)
def test_what_is_wrong_with_a_server(changes: Mapping[str, object], subject: str, level: str, found: str) -> None:
    by_subject = {finding.subject: finding for finding in servers.judge("pg", replace(GOOD, **changes))}
    finding = by_subject.pop(subject)
    assert (str(finding.level), finding.text[: len(found)]) == (level, found)
    assert (finding.remedy is None) == (level == "ok")
    assert {str(each.level) for each in by_subject.values()} <= {"ok"}


def test_a_good_server() -> None:
    assert levels(servers.judge("pg", GOOD)) == {"pg": "ok", "pg: clock": "ok"}


@pytest.mark.parametrize(
    ("version", "level"),
    [((2, 8), "problem"), ((3, 5), "problem"), ((3, 6), "ok"), ((3, 9), "ok"), ((4, 2), "ok"), ((10, 0), "ok")],
)
def test_brokers_of_kafka_3_and_newer(version: tuple[int, ...], level: str) -> None:
    assert str(servers.supported("kafka", version, 3).level) == level


NEEDED = ["apache-airflow>=3.1", "kafka-python<4,>=3.0.12", "fastavro>=1.9; extra == 'avro'"]


def test_packages_of_a_wrong_version_and_missing_ones() -> None:
    good = {"apache-airflow": "3.3.2", "kafka-python": "3.0.12"}
    (fine,) = installation.fitting_packages(NEEDED, good)
    assert (fine.level, fine.text) == (Level.OK, "every required package has a version that fits, Airflow 3.3.2")
    (old,) = installation.fitting_packages(NEEDED, good | {"kafka-python": "3.0.11"})
    assert (old.subject, old.level, old.text.partition(",")[0]) == ("package kafka-python", Level.PROBLEM, "3.0.11")
    (missing,) = installation.fitting_packages(NEEDED, {"kafka-python": "3.0.12"})
    assert (missing.text, missing.remedy) == ("not installed, expected >=3.1", "pip install 'apache-airflow>=3.1'")


@pytest.mark.parametrize(
    ("installed", "level"),
    [
        ({"pyspark": "4.0.0", "pyspark-client": "4.0.0"}, "ok"),
        ({"pyspark": "4.0.0"}, "ok"),
        ({}, "ok"),
        ({"pyspark": "4.0.0", "pyspark-client": "4.1.0"}, "problem"),
        ({"pyspark-client": "4.1.0"}, "ok"),
    ],
)
def test_pyspark_and_its_client_are_of_one_version(installed: Mapping[str, str], level: str) -> None:
    assert str(installation.same_spark(installed).level) == level


@pytest.mark.parametrize(
    ("stage", "can", "level", "text"),
    [
        (Stage(), True, "ok", "Spark stages a batch of 10,000 offsets or more, one process a smaller one"),
        (Stage(), False, "warning", "Spark is not installed: one process stages batches of any size"),
        (Stage(StageEngine.SPARK), True, "ok", "Spark stages every batch"),
        (Stage(StageEngine.SPARK), False, "problem", "stage.engine is spark, and Spark is not installed"),
        (Stage(StageEngine.PROCESS), True, "ok", "one process stages every batch"),
        (Stage(StageEngine.PROCESS), False, "ok", "one process stages every batch"),
    ],
)
def test_which_engine_stages_the_batches_of_a_pipeline(stage: Stage, can: bool, level: str, text: str) -> None:
    (finding,) = check_stage(replace(a_pipeline(), stage=stage), can)
    assert (finding.subject, str(finding.level), finding.text) == ("orders: stage", level, text)


def test_python_is_one_that_the_package_takes() -> None:
    needed = ">=3.11,<3.14"
    assert [str(installation.fitting_python(found, needed).level) for found in ("3.10.9", "3.11.0", "3.14.0")] == [
        "problem",
        "ok",
        "problem",
    ]


def test_the_reports_folder_may_have_to_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(tmp_path / "a" / "b"))
    assert levels(installation.check_reports_folder()) == {"reports folder": "ok"}
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("shutil.disk_usage", lambda disk: SimpleNamespace(free=5_000_000 if disk == tmp_path else 0))
    (nearly_full,) = installation.check_reports_folder()
    assert (str(nearly_full.level), nearly_full.text) == ("warning", f"{tmp_path / 'a' / 'b'} has 5 MB free")
    assert nearly_full.remedy == "free 100 MB, or set OFFSET_LEDGER_REPORTS to a folder on a larger disk"
    (tmp_path / "a").write_text("a file")
    assert levels(installation.check_reports_folder()) == {"reports folder": "problem"}


def test_a_failure_or_a_hang_ends_its_own_check_only_and_those_that_need_it() -> None:
    never = threading.Event()

    def hang() -> Iterator[Finding]:
        never.wait(60)
        yield ok("hang", "late")

    def fail() -> Iterator[Finding]:
        yield ok("fail", "so far")
        raise BrokerUnavailable("gone; look")

    def crash() -> Iterator[Finding]:
        yield warning("crash", "soon", "wait")
        raise ZeroDivisionError("x")

    checks = [
        Check("hang", hang),
        Check("fail", fail),
        Check("after", lambda: [ok("after", "never")], needs="fail"),
        Check("behind", lambda: [ok("behind", "never")], needs="after"),
        Check("crash", crash),
        Check("last", lambda: [ok("last", "done")]),
    ]
    try:
        found = [(each.subject, str(each.level), each.text) for each in run_checks(checks, seconds=2)]
    finally:
        never.set()
    assert found == [
        ("hang", "problem", "no answer within 2 s"), ("fail", "ok", "so far"),
        ("fail", "problem", "BrokerUnavailable: gone; look"), ("after", "skipped", "not checked, because of: fail"),
        ("behind", "skipped", "not checked, because of: after"), ("crash", "warning", "soon"),
        ("crash", "problem", "ZeroDivisionError: x"), ("last", "ok", "done"),
    ]  # fmt: skip
