"""An export of quarantine: every chosen record with its exact bytes, as JSON lines or as CSV that Postgres reads."""

from __future__ import annotations

import csv
import io
import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import DatabaseUnavailable
from offset_ledger.operations.repair import quarantine_export
from offset_ledger.operations.repair.quarantine_export import FIELDS
from offset_ledger.postgres.ledger.database import connect, rows, transaction
from offset_ledger.postgres.ledger.redrive import Selection
from offset_ledger.steps.run.redrive import dismiss
from offset_ledger_kit.cli.main import main
from tests.fixtures.raw import Raw
from tests.fixtures.servers import Servers
from tests.fixtures.staged import ME
from tests.integration.operations.repair.repair_bench import Bench

VALUES = (b"{", b'{"a": "\xc3\xa9, ""\r\n"', b"\xff\xfe", b"nul \x00", b"", None, "[\u2028\U0001f600".encode())
RECORDS = [
    Raw(n % 2, n // 2, value, None if n % 3 else b"k\xff", (("trace", b"x"), ("raw", b"\xff")) if n == 1 else ())
    for n, value in enumerate(VALUES)
]
SENT = {(r.partition, r.offset): (r.key, r.value) for r in RECORDS}


@pytest.fixture
def bench(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Records in quarantine whose bytes no line can have as they are."""
    monkeypatch.chdir(tmp_path)
    with connect(servers.postgres) as session:
        made = Bench(tmp_path, session)
        made.commit(*RECORDS)
        yield made


def exact(record: dict[str, Any], name: str) -> bytes | None:
    """The bytes of key or value: as text, in base64, or null; never both."""
    text, encoded = record[name], record[f"{name}_base64"]
    assert text is None or encoded is None
    return b64decode(encoded) if encoded is not None else None if text is None else text.encode()


def exported(records: list[dict[str, Any]]) -> dict[tuple[int, int], tuple[bytes | None, bytes | None]]:
    assert all(tuple(record) == FIELDS for record in records)
    found = {(r["partition"], r["offset"]): (exact(r, "key"), exact(r, "value")) for r in records}
    assert len(found) == len(records)
    return found


def test_json_lines_have_the_exact_bytes_of_every_record(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(bench.pipeline.path)
    assert main(["quarantine", "list", path, "--export", "out.jsonl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"records": len(VALUES), "file": "out.jsonl"}
    text = Path("out.jsonl").read_text()
    records = [json.loads(line) for line in text.split("\n")[:-1]]
    assert exported(records) == SENT
    (second,) = [record for record in records if (record["partition"], record["offset"]) == (1, 0)]
    assert second["headers"] == [["trace", "x"], ["raw", {"base64": "/w=="}]]
    assert {each["code"] for each in second["reasons"]} == {"syntax"}
    assert (second["timestamp_ms"], second["batch_id"]) == (1767268800000, 1)

    assert main(["quarantine", "list", path, "--export", "-"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (text, f"{len(VALUES)} records of orders written to -\n")


def test_csv_has_the_exact_bytes_and_postgres_reads_it(bench: Bench) -> None:
    path = str(bench.pipeline.path)
    assert main(["quarantine", "list", path, "--export", "out.csv"]) == 0
    with transaction(bench.session) as cursor:
        columns = ", ".join(f'"{name}" {"int" if name in ("partition", "offset") else "text"}' for name in FIELDS)
        cursor.execute(f"CREATE TABLE public.read ({columns})")
        with Path("out.csv").open("rb") as file:
            cursor.copy_expert("COPY public.read FROM STDIN WITH (FORMAT csv, HEADER match)", file)
    records = [dict(row) for row in rows(bench.session, "SELECT * FROM public.read")]
    assert exported(records) == SENT
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(io.StringIO(file.read(), newline="")))) == len(VALUES)


def test_an_export_has_the_chosen_records_alone(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(bench.pipeline.path)
    dismiss(bench.pipeline, Selection(0, (0,)), ME, "never")

    def places(*options: str) -> set[tuple[int, int]]:
        assert main(["quarantine", "list", path, "--export", "-", *options]) == 0
        return {(r["partition"], r["offset"]) for r in map(json.loads, capsys.readouterr().out.splitlines())}

    assert places("--dismissed") == {(0, 0)}
    assert places("--reason", "tombstone") == {(1, 2)}
    assert places() == SENT.keys() - {(0, 0)}
    assert places("--resolved") == set()


def test_an_export_that_fails_leaves_the_file_of_the_one_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["quarantine", "list", str(bench.pipeline.path), "--export", "out.jsonl"]
    assert main(export) == 0
    before = Path("out.jsonl").read_bytes()
    record = quarantine_export._record

    def ends(row: Any) -> dict[str, Any]:
        if row["offset"] == 1:
            raise DatabaseUnavailable("the server is away")
        return record(row)

    monkeypatch.setattr(quarantine_export, "_record", ends)
    assert main(export) != 0
    assert "the server is away" in capsys.readouterr().err
    assert ([str(each) for each in Path().glob("out*")], Path("out.jsonl").read_bytes()) == (["out.jsonl"], before)


def test_a_file_that_cannot_be_written_is_named(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*options: str) -> str:
        assert main(["quarantine", "list", str(bench.pipeline.path), "--export", *options]) != 0
        printed = capsys.readouterr()
        return f"{printed.out}{printed.err}".strip()

    assert told("out.txt") == (
        "offset-ledger: UsageError: --export takes a file that ends in .jsonl or .csv, or -, found 'out.txt'"
    )
    assert told("gone/out.csv") == (
        "offset-ledger: ConfigurationError: gone/out.csv cannot be written: No such file or directory; name another "
        "--export"
    )
    assert "leave out --json" in told("-", "--json")
