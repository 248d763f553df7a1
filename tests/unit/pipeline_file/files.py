"""A whole pipeline file to change, what the parser says of it, and whether the JSON Schema takes it."""

from __future__ import annotations

from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

from offset_ledger.errors import PipelineFileError
from offset_ledger.pipeline_file.located import PlainLoader
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.schema import PIPELINE

VALIDATOR = Draft202012Validator(PIPELINE)
BASE = """\
pipeline: orders
schedule: "@hourly"
tags: [one]
source:
  connection: kafka_default
  topic: orders
  start: earliest
  transactional: true
record:
  event_id: $.id
  publish_at: $.at
  tombstone: skip
  columns:
    a: text
    b: {type: integer, path: $.x.y, nullable: true}
    c: timestamptz
target:
  connection: postgres_default
  table: orders
quality:
  suite: orders
  max_quarantined_share: 0.5
limits:
  records_per_batch: 1000
"""


class QuickLoader(yaml.CSafeLoader):
    """The parser's reading of scalars in libyaml, for the plain data that the schema judges."""

    yaml_implicit_resolvers = PlainLoader.yaml_implicit_resolvers


def edited(old: str, new: str, text: str = BASE) -> str:
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the base file"
    return text.replace(old, new)


def written(folder: Path, text: str | bytes, name: str = "orders.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems(path: Path) -> list[str]:
    """The mistakes without the file's name; none if the file parses."""
    return [problem.removeprefix(f"{path}:") for problem in raw_problems(path)]


def raw_problems(path: Path) -> tuple[str, ...]:
    try:
        parse_pipeline(path)
    except PipelineFileError as error:
        return error.problems
    return ()


def schema_accepts(text: str) -> bool:
    return bool(VALIDATOR.is_valid(yaml.load(text, QuickLoader)))
