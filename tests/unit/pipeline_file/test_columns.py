"""Columns that are no plain values of the record: what the file says, and every contradiction."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.errors import PipelineFileError
from offset_ledger.model.followed_columns import effective
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import REST, Column, ColumnType
from tests.unit.pipeline_file.files import edited, problems, schema_accepts, written


@pytest.mark.parametrize("columns", ["auto", '{"*": auto}', '{"*": auto, a: text}'])
def test_columns_may_come_from_a_sample(columns: str, tmp_path: Path) -> None:
    declared = "\n    a: text\n    b: {type: integer, path: $.x.y, nullable: true}\n    c: timestamptz\n"
    text = edited(f"columns:{declared}", f"columns: {columns}\n  rest: true\n")
    pipeline = parse_pipeline(written(tmp_path, text))
    assert schema_accepts(text)
    assert pipeline.has_more_columns
    a = (Column("a", ColumnType("text"), ("a",)),) if "text" in columns else ()
    assert pipeline.record.columns == (*a, REST)
    sampled = [Column("a", ColumnType("date"), ("a",)), Column("n", ColumnType("bigint"), ("n",))]
    known = effective(pipeline.record, sampled)
    assert [column.name for column in known.columns] == ["a", "n", "_rest"], "the rest is what no other column reads"


MISTAKES = {
    "{type: text, path: $.d, header: d}": ".header: path says already where the value is; keep one of the two",
    "{type: text, value: a, key: $}": ".value: key says already where the value is; keep one of the two",
    "{type: text, header: ''}": (
        ".header: expected text, found none; write something, or leave the key out where it is optional"
    ),
    "{type: text, value: [a]}": ".value: expected a single value, found a list; write a text, a number, true or false",
    "{type: text, split: ''}": ".split: '' is not a separator; write for example \",\"",
    "{type: text, transform: title}": (
        ".transform: expected one of lower, upper, trim, found 'title'; write lower or upper or trim"
    ),
}
ONLY_PARSER = {
    "{type: text, value: a, default: b}": ".default: a constant is taken as it is written; drop it",
    "{type: text, value: a, transform: lower}": ".transform: a constant is taken as it is written; drop it",
    "{type: text, value: a, nullable: true}": (
        ".nullable: a column with a value or a default is never NULL; keep one of the two"
    ),
    "{type: text, header: a, aliases: [$.d]}": ".aliases: a header has no aliases; drop it",
    "{type: text, round: true}": ".round: text has no microseconds; drop it",
    "{type: time, years: all}": ".years: time has no years; drop it",
    "{type: date, value: 2026-01-01, years: all}": ".years: a constant is taken as it is written; drop it",
    "{type: text, coerce: true}": ".coerce: it is read from text anyway; drop it",
    "{type: integer, header: a, coerce: true}": ".coerce: it is read from text anyway; drop it",
    "{type: text, split: ','}": ".split: a split text is a list, and the type is text; write type: text[], or jsonb",
    "{type: integer, transform: trim}": ".transform: integer is not read from text; add coerce: true",
    "{type: jsonb, transform: trim}": ".transform: jsonb is not read from text; drop it",
    "{type: jsonb, header: a}": ".type: a header is text and no JSON; write text, or add split",
    "{type: bytea, key: $, encoding: hex}": ".encoding: the bytes of the key are taken as they are; drop it",
    "{type: smallint, value: 1.5}": ".value: expected a whole number for smallint, found 1.5; correct one of the two",
    "{type: boolean, default: 1}": ".default: expected true or false for boolean, found 1; correct one of the two",
    "{type: numeric, default: '1'}": '.default: expected a number for numeric, found "1"; correct one of the two',
    "{type: text, default: 1}": ".default: expected a text for text, found 1; correct one of the two",
    "{type: jsonb, default: '[]'}": '.default: expected no constant for jsonb, found "[]"; correct one of the two',
    "{type: text, key: $.d}": ".key: keys are text, which has no members; add source.key_format, or write $",
}


@pytest.mark.parametrize("declared", [*MISTAKES, *ONLY_PARSER])
def test_mistake_is_one_line(declared: str, tmp_path: Path) -> None:
    text = edited("c: timestamptz", f"c: {declared}")
    said = MISTAKES.get(declared) or ONLY_PARSER[declared]
    assert problems(written(tmp_path, text)) == [f"16: record.columns.c{said}"]
    assert schema_accepts(text) == (declared in ONLY_PARSER)


def test_columns_of_keys_need_the_format_that_has_members(tmp_path: Path) -> None:
    of_json = edited("c: timestamptz", "c: {type: text, key: $.d}").replace(
        "topic: orders", "topic: orders\n  key_format: json"
    )
    assert problems(written(tmp_path, of_json)) == []
    assert schema_accepts(of_json)
    framed = of_json.replace("json", "avro\n  format: avro\n  registry: r").replace("$.d", "$")
    assert problems(written(tmp_path, framed)) == [
        "19: record.columns.c.key: a key in avro is no text; write the path of a value in it"
    ]
    unread = edited("topic: orders", "topic: orders\n  key_format: json")
    assert problems(written(tmp_path, unread)) == [
        "7: source.key_format: the keys are not read: record.event_id is a path; drop it, or write event_id: key"
    ]


@pytest.mark.parametrize(("by", "refused"), [("", True), (", by: c", True), (", by: publish_at", False)])
def test_partitions_are_of_the_years_1_to_9999(tmp_path: Path, by: str, refused: bool) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "pipeline: p\nsource: {topic: t}\nrecord:\n  event_id: $.id\n  publish_at: $.at\n"
        f"  columns: {{c: {{type: date, years: all}}}}\ntarget: {{table: t, partitions: {{every: day{by}}}}}\n"
    )
    if not refused:
        assert parse_pipeline(path).record.columns[0].far
        return
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(path)
    assert caught.value.problems == (
        f"{path}:6: record.columns.c.years: commits create partitions for the years 1 to 9999 alone; drop it, or name "
        "another column as target.partitions.by",
    )
