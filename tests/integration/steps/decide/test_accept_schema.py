"""Schemas that no column fits: asked, approved, rejected, answered by the file, shown by diff and on the report."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from offset_ledger.errors import StateConflict, TerminalError, UndecidedSchema
from offset_ledger.model.questions import QuestionAnswer, QuestionKind
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.check.decode_sample import Choice, decode_sample
from offset_ledger.postgres.ledger.database import rows
from offset_ledger.steps.decide.accept_topic import accept_schema, schema_question
from offset_ledger.steps.decide.answers import answer_question, question_before_staging, record_question
from offset_ledger_kit.cli.main import main
from tests.fixtures.following import Bench, avro, bench, ranges, written
from tests.fixtures.registry_bench import ME

__all__ = ["bench"]  # the fixture

TEXT = "string in the schema, bigint in the table: records are quarantined (expected integer, got string)"


def a_question(bench: Bench) -> tuple[list[int], str]:
    """Two records, then two whose amount is a text and which have a note; the ids of both schemas, and the texts."""
    texts = [avro(amount="long"), avro(amount="string", note="string")]
    ids = [bench.register(text) for text in texts]
    bench.put(0, *(written(texts[0], ids[0], id=f"a{n}", amount=n) for n in range(2)))
    bench.put(0, *(written(texts[1], ids[1], id=f"b{n}", amount="many", note="x") for n in range(2)))
    return ids, texts[1]


def epochs(bench: Bench) -> list[list[Any]]:
    return [list(row) for row in rows(bench.session, "SELECT state, epoch FROM offset_ledger.batch ORDER BY batch_id")]


def test_what_no_column_fits_is_asked_and_an_approval_leaves_the_columns_as_they_are(bench: Bench) -> None:
    ids, text = a_question(bench)
    (done,) = bench.ingest(until_drained=False)
    assert (ranges(done), schema_question(bench.pipeline)) == ([OffsetRange(0, 0, 2)], None)
    with pytest.raises(UndecidedSchema) as error:
        bench.ingest()
    difference = f"$.amount: {TEXT}"
    assert str(error.value) == (
        f"topic {bench.topic}: schema id {ids[1]} (from 0:2) has {difference}; nothing was staged; correct the pipeline"
        " file or the producer, or leave the columns as they are with: offset-ledger accept schema orders --why ..."
    )
    assert epochs(bench) == [["committed", 2], ["planned", 0]]
    question = question_before_staging(bench.pipeline)
    assert question is not None
    assert (question.kind, question.batch_id) == (QuestionKind.CHANGED_SCHEMA, done.batch.batch_id + 1)
    assert question.details == {
        "schemas": [f"schema id {ids[1]}"],
        "begins": {"0": 2},
        "differences": [difference],
        "adds": ["note text"],
    }
    rejected = record_question(bench.pipeline, question)
    assert answer_question(bench.pipeline, rejected, QuestionAnswer.REJECT, ME, "later") is QuestionAnswer.REJECT
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    approved = record_question(bench.pipeline, question)
    assert answer_question(bench.pipeline, approved, QuestionAnswer.APPROVE, ME, "known") is QuestionAnswer.APPROVE
    assert question_before_staging(bench.pipeline) is None
    bench.put(1, written(text, ids[1], id="c", amount="none", note="y"))
    bench.ingest()
    assert bench.types() == {"amount": "bigint", "note": "text"}
    assert {row[0] for row in bench.rows("event_id")} == {"a0", "a1"}
    bad = {written(text, ids[1], id=f"b{n}", amount="many", note="x") for n in range(2)}
    bad.add(written(text, ids[1], id="c", amount="none", note="y"))
    assert bench.quarantine() == {(value, "type", ids[1]) for value in bad}
    decided = rows(bench.session, "SELECT kind, answer, why FROM offset_ledger.decision ORDER BY decision_id")
    assert [tuple(row) for row in decided] == [
        ("changed_schema", "reject", "later"),
        ("changed_schema", "approve", "known"),
    ]
    bench.agree()


def test_an_accepted_difference_is_not_asked_about_again(bench: Bench) -> None:
    a_question(bench)
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    other = replace(schema_question(bench.pipeline), details={"differences": []})
    with pytest.raises(StateConflict, match="other differences were approved"):
        accept_schema(bench.pipeline, ME, "no", other)
    accepted = accept_schema(bench.pipeline, ME, "known")
    assert [str(each) for each in accepted] == [f"$.amount: {TEXT}"]
    with pytest.raises(TerminalError, match="no schema waits for a decision"):
        accept_schema(bench.pipeline, ME, "twice")
    later = avro(amount="string", note="string", more="long")
    bench.put(0, written(later, bench.register(later), id="c", amount="none", note="y", more=1))
    bench.ingest()
    assert bench.types() == {"amount": "bigint", "note": "text", "more": "bigint"}
    assert len(bench.quarantine()) == 3


def test_a_file_that_declares_the_column_answers_too(bench: Bench) -> None:
    ids, _ = a_question(bench)
    with pytest.raises(UndecidedSchema):
        bench.ingest()
    bench.settings["amount"] = "bigint, path: $.number"  # none has it
    with pytest.raises(UndecidedSchema, match=r"\$\.amount: a new field, and amount is another column"):
        bench.ingest()
    bench.settings["amount"] = "bigint, path: $.number, nullable: true}\n    counted: {type: text, path: $.amount"
    bench.ingest()
    assert set(bench.rows("event_id, amount, counted, note, _schema_id")) == {
        ("a0", 0, None, None, ids[0]),
        ("a1", 1, None, None, ids[0]),
        ("b0", None, "many", "x", ids[1]),
        ("b1", None, "many", "x", ids[1]),
    }


def test_a_new_type_of_a_column_that_a_schema_made_is_asked_about(bench: Bench) -> None:
    """And a record that has no such field at all has NULL."""
    texts = [avro(day={"type": "int", "logicalType": "date"}), avro(), avro(day="string")]
    ids = [bench.register(text) for text in texts]
    bench.put(0, written(texts[0], ids[0], id="a", day=date(2026, 1, 2)), written(texts[1], ids[1], id="b"))
    bench.ingest()
    assert set(bench.rows("event_id, day")) == {("a", date(2026, 1, 2)), ("b", None)}
    bench.put(0, written(texts[2], ids[2], id="c", day="tomorrow"))
    with pytest.raises(
        UndecidedSchema, match=r"\$\.day: string in the schema, date in the table: texts that are no date"
    ):
        bench.ingest()


def test_the_command_line_answers_and_shows_what_came_by_a_schema(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OFFSET_LEDGER_REPORTS", str(tmp_path / "reports"))
    ids, _ = a_question(bench)
    file = str(bench.path)
    assert main(["ingest", file]) == 0
    assert main(["ingest", file]) == 1
    assert f"schema id {ids[1]} (from 0:2) has $.amount: {TEXT}" in capsys.readouterr().err
    assert main(["check", "--schema", file]) == 1
    assert f"! $.amount: {TEXT}; the next record with it is a question\n" in (shown := capsys.readouterr().out)
    assert "+ $.note: the next record with it brings column note text\n" in shown
    assert main(["accept", "schema", file, "--why", "known"]) == 0
    assert capsys.readouterr().out == f"orders goes on with its columns; accepted: $.amount: {TEXT}\n"
    assert main(["accept", "schema", file, "--why", "known"]) == 1
    assert main(["ingest", file]) == 0
    first, second = (row[0] for row in rows(bench.session, "SELECT batch_id FROM offset_ledger.batch ORDER BY 1"))
    capsys.readouterr()
    main(["check", "--schema", file])
    assert f"+ $.note: text by schema id {ids[1]}, with batch {second}\n" in capsys.readouterr().out
    assert main(["check", file]) == 0
    assert "table public.orders fits" in capsys.readouterr().out
    pages = {batch: (tmp_path / f"reports/orders/{batch}.json").read_text() for batch in (first, second)}
    assert json.loads(pages[first])["boundaries"] == [
        f"partition 0 ends before offset 2, where schema id {ids[1]} needs column note text; $.amount: {TEXT}"
    ]
    assert json.loads(pages[second])["boundaries"] == []
    sample = decode_sample(bench.pipeline, Choice(0, 0), 2)
    assert [row.values for row in sample.rows] == [{"amount": 0, "note": None}, {"amount": 1, "note": None}]
