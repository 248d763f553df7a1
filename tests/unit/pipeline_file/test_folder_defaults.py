"""What a pipeline file may leave out or take from elsewhere: connections, the folder's defaults, the environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offset_ledger.errors import PipelineFileError
from offset_ledger.pipeline_file.parse import known_names, parse_all, parse_good, parse_pipeline
from offset_ledger.pipeline_file.source import StartAt

FILE = """\
pipeline: orders
source: {topic: orders}
record:
  event_id: $.id
  publish_at: $.at
  columns: {a: text}
target: {table: orders}
"""
DEFAULTS = """\
owner: shop
tags: [shared]
source:
  connection: kafka_shop
  start: latest
record:
  columns: {tenant: text}
spark:
  conf: {spark.a: "1", spark.b: "1"}
"""


def written(folder: Path, text: str, name: str = "orders.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(PipelineFileError) as caught:
        parse_pipeline(path)
    return [problem.removeprefix(f"{path.parent}/") for problem in caught.value.problems]


def test_connections_have_the_names_of_airflow(tmp_path: Path) -> None:
    pipeline = parse_pipeline(written(tmp_path, FILE))
    assert pipeline.connections == ("kafka_default", "postgres_default")
    assert (pipeline.source.transactional, pipeline.source.start) == (None, StartAt.EARLIEST)


def test_the_values_of_the_file_win_key_by_key_over_those_of_the_folder(tmp_path: Path) -> None:
    written(tmp_path, DEFAULTS, "_defaults.yaml")
    text = FILE.replace("{topic: orders}", "{topic: orders, start: none}")
    path = written(tmp_path, text + "tags: [own]\nspark: {conf: {spark.b: '2'}}\n")
    pipeline = parse_pipeline(path)
    assert (pipeline.owner, pipeline.tags) == ("shop", ("own",))
    assert (pipeline.source.connection, pipeline.source.start) == ("kafka_shop", StartAt.NONE)
    assert [column.name for column in pipeline.record.columns] == ["tenant", "a"]
    assert pipeline.spark.conf == {"spark.a": "1", "spark.b": "2"}
    assert parse_all(tmp_path) == parse_good(tmp_path) == (pipeline,)
    assert known_names(tmp_path) == ("orders",)


def test_the_hash_is_of_what_results_and_so_is_the_file_that_a_driver_elsewhere_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFIX", "eu.")
    defaults = written(tmp_path, DEFAULTS, "_defaults.yaml")
    path = written(tmp_path, FILE.replace("topic: orders", "topic: '${PREFIX}orders'") + "description: a ${b}\n")
    pipeline = parse_pipeline(path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.delenv("PREFIX")
    shipped = elsewhere / "pipeline.yaml"
    shipped.write_bytes(pipeline.text)
    assert parse_pipeline(shipped) == replace(pipeline, path=shipped)
    monkeypatch.setenv("PREFIX", "us.")
    in_us = parse_pipeline(path)
    defaults.write_text(DEFAULTS.replace("latest", "none"))
    assert len({pipeline.config_hash, in_us.config_hash, parse_pipeline(path).config_hash}) == 3
    defaults.write_text(DEFAULTS + "# a comment\n")
    assert parse_pipeline(path).config_hash == in_us.config_hash


def test_a_mistake_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    mistaken = DEFAULTS.replace("latest", "later").replace("tags", "tgas").replace("tenant: text", "tenant: txt")
    written(tmp_path, mistaken + "quality: {suite: orders, max_quarantined_share: 7}\n", "_defaults.yaml")
    path = written(tmp_path, FILE.replace("topic: orders", "tpic: orders"))
    written(tmp_path, FILE.replace("orders", "returns"), "returns.yaml")
    own = [
        "orders.yaml:2: source.topic is missing; add it, for example topic: flights.events",
        "orders.yaml:2: source.tpic is not a known key; did you mean topic?",
    ]
    shared = [
        "_defaults.yaml:2: tgas is not a known key; did you mean tags?",
        "_defaults.yaml:5: source.start: expected one of earliest, latest, none, found 'later'; did you mean latest?",
        "_defaults.yaml:7: record.columns.tenant: 'txt' is not a column type; did you mean text?",
        "_defaults.yaml:10: quality.max_quarantined_share: the share 7 is not in 0 to 1; write 0.01 for one percent",
    ]
    assert sorted(problems(path)) == sorted([*shared, *own])
    with pytest.raises(PipelineFileError) as caught:
        parse_all(tmp_path)
    assert len(caught.value.problems) == len([*shared, *own])


def test_what_a_section_of_the_folder_lacks_is_missing_in_the_file(tmp_path: Path) -> None:
    written(tmp_path, DEFAULTS, "_defaults.yml")
    path = written(tmp_path, "# orders\n" + FILE.replace("source: {topic: orders}\n", ""))
    assert problems(path) == ["orders.yaml:2: source.topic is missing; add it, for example topic: flights.events"]


@pytest.mark.parametrize(
    ("defaults", "says"),
    [
        ("- a\n", "1: expected a mapping, found a list; write keys of a pipeline file"),
        ("owner: a\npipeline: b\n", "2: pipeline names one pipeline; write it into that pipeline's file"),
        ("owner: [\n", "2: not valid YAML: while parsing a flow node"),
    ],
)
def test_defaults_that_no_file_can_share_are_one_line(tmp_path: Path, defaults: str, says: str) -> None:
    written(tmp_path, defaults, "_defaults.yaml")
    (line,) = problems(written(tmp_path, FILE))
    assert line.startswith(f"_defaults.yaml:{says}")


@pytest.mark.parametrize("nothing", ["", "# later\n", "---\n", "null\n"])
def test_a_file_of_defaults_with_nothing_in_it_adds_nothing(tmp_path: Path, nothing: str) -> None:
    path = written(tmp_path, FILE)
    alone = parse_pipeline(path)
    written(tmp_path, nothing, "_defaults.yaml")
    assert parse_pipeline(path) == alone


def test_topics_and_tables_may_name_variables_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAGE", "dev.")
    monkeypatch.setenv("DB_SCHEMA", "shop_dev")
    monkeypatch.setenv("NONE_", "")
    text = FILE.replace("table: orders", "table: '${DB_SCHEMA}.orders'").replace("topic: orders", "{}")
    for topics, expected in {
        "topic: '${STAGE}orders${NONE_}'": ("dev.orders", (), None),
        "topics: ['${STAGE}a', b]": ("", ("dev.a", "b"), None),
        "topic_pattern: '${STAGE}orders\\..+$'": ("", (), r"dev\.orders\..+$"),
    }.items():
        whole = text.replace("{{}}", "{" + topics + "}") + "quality: {dead_letter_topic: '${STAGE}dead'}\n"
        pipeline = parse_pipeline(written(tmp_path, whole))
        source, target = pipeline.source, pipeline.target
        assert (source.topic, source.topics, source.topic_pattern) == expected
        assert (target.schema, target.table, pipeline.quality.dead_letter_topic) == ("shop_dev", "orders", "dev.dead")


def test_a_variable_that_is_not_set_or_makes_no_name_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STAGE", raising=False)
    path = written(tmp_path, FILE.replace("topic: orders", "topic: '${STAGE}orders'"))
    assert problems(path) == [
        "orders.yaml:2: source.topic: the environment variable STAGE is not set; set it for every process of Airflow "
        "and for the command line"
    ]
    monkeypatch.setenv("STAGE", "a b")
    assert problems(path) == [
        "orders.yaml:2: source.topic: 'a borders' is not a Kafka topic; write at most 249 of A-Z, a-z, 0-9, ., _ and -"
    ]
    written(tmp_path, DEFAULTS.replace("kafka_shop", "'${STAGE}'"), "_defaults.yaml")
    monkeypatch.setenv("STAGE", "")
    assert problems(path)[0].startswith("_defaults.yaml:4: source.connection: '${STAGE}' is not an Airflow connection")
