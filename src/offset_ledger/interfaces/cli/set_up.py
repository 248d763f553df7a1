"""The verbs before the first batch: servers, the ledger, a pipeline file, and the checks of them."""

from __future__ import annotations

import shutil
from argparse import ArgumentTypeError, Namespace
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, PipelineFileError, TransientError, UsageError
from offset_ledger.interfaces.cli.verbs import (
    OneOf,
    Option,
    Outcome,
    Topics,
    connection,
    from_0,
    from_1,
    optional_pipeline,
    pipeline_of,
    run_verb,
    say,
    since,
    verb,
)
from offset_ledger.model.moments import parse_since
from offset_ledger.outside.connections import get_connection

if TYPE_CHECKING:
    from offset_ledger.operations.check.decode_sample import Sample, SampleRow


@verb(connection("postgres_default"), example="offset-ledger migrate")
def run_migrate(arguments: Namespace) -> Outcome:
    """Create or upgrade the ledger in Postgres."""
    from offset_ledger.postgres.ledger.database import connect, migrate

    with connect(get_connection(arguments.connection)) as session:
        applied = migrate(session)
    return Outcome({"applied": applied}, "\n".join(f"applied {name}" for name in applied) or "the ledger is up to date")


@verb(
    Option("--topic", required=True, help="the Kafka topic"),
    connection("kafka_default"),
    Option("--registry", metavar="CONNECTION", help="Airflow connection id of the records' schema registry"),
    Option("--event-id", metavar="PATH", help="what identifies an event, such as $.id, or key (default: proposed)"),
    Option("--name", help="of the pipeline (default: that of the file, or the last part of the topic's)"),
    Option("--table", metavar="SCHEMA.TABLE", help="the target; if it exists, by its columns (default: public.<name>)"),
    Option("--records", type=from_1, default=1000, help="how many records to sample (1000)"),
    Option("--output", metavar="FILE", help="default: dags/pipelines/<name>.yaml; - prints it"),
    Option("--force", action="store_true", help="overwrite files that are there"),
    example="offset-ledger init --topic shop.orders --output dags/pipelines/orders.yaml",
)
def run_init(arguments: Namespace) -> Outcome:
    """Propose a pipeline file and a suite for a topic, from a sample of its records."""
    from offset_ledger.operations.init.run import PRINTED, initialize

    a = arguments
    done = initialize(a.topic, a.connection, a.registry, a.records, a.name, a.table, a.output, a.force, a.event_id)
    doubts = list(done.proposal.doubts)
    data = {
        "pipeline": done.name,
        "records": done.records,
        "written": [str(path) for path in done.written],
        "file": done.proposal.text,
        "suite": done.proposal.suite,
        "unsure": doubts,
    }
    if arguments.output == PRINTED:
        for doubt in doubts:
            say(doubt)
        return Outcome(data, done.proposal.text.rstrip("\n"))
    path = done.written[0]
    lines = [f"wrote {' and '.join(map(str, done.written))}, from {counted(done.records, 'record')}; please review:"]
    lines += [f"  {doubt}" for doubt in doubts]
    lines += ["next:", f"  offset-ledger check {path}", f"  offset-ledger check {path} --data"]
    return Outcome(data, "\n".join([*lines, f"  offset-ledger ingest {path} --dry-run"]))


@verb(
    Option("what", choices=["sources"], help="the tables, and their views, as dbt's sources"),
    Option("--folder", default="dags/pipelines", help="of the pipeline files (dags/pipelines)"),
    connection("postgres_default"),
    example="offset-ledger dbt sources --folder dags/pipelines",
)
def run_dbt(arguments: Namespace) -> Outcome:
    """Print a sources.yml for dbt, with descriptions, freshness and tests."""
    import yaml

    from offset_ledger.operations.init.dbt_sources import dbt_sources
    from offset_ledger.pipeline_file.parse import parse_all

    pipelines = parse_all(Path(arguments.folder))
    document = dbt_sources(each for each in pipelines if each.target.connection == arguments.connection)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return Outcome(document, f"# By offset-ledger dbt sources, for dbt 1.10.5 or newer\n{text}".rstrip("\n"))


def _records(text: str) -> int:
    from offset_ledger.operations.check.decode_sample import MAX_RECORDS

    if (count := from_1(text)) > MAX_RECORDS:
        raise ArgumentTypeError(f"should be at most {MAX_RECORDS}, found {count}")
    return count


_SAMPLE = (
    Option("--records", type=_records, help="how many records of the topic (10)"),
    Option("--partition", type=from_0, help="only records of this partition"),
    OneOf(
        Option("--from-offset", type=from_0, help="first offset in --partition, instead of the next one"),
        since("first record timestamp, instead of the next records"),
    ),
    Option("--refused", action="store_true", help="show only what would go to quarantine"),
)


def _instead(name: str, about: str) -> Option:
    return Option(f"--{name}", dest="instead", action="store_const", const=name, help=about)


@verb(
    optional_pipeline("needed but for --system and --folder: "),
    OneOf(
        _instead("data", "decode some records of the topic instead"),
        _instead("schema", "compare the latest schema, the file and the table instead"),
        _instead("system", "check packages, servers, versions, rights, clocks, tables and topics instead"),
        Option("--folder", type=Path, help="check all files of this folder, with their suites; no server is asked"),
    ),
    *_SAMPLE,
    topics=Topics.TOGETHER,
    example="offset-ledger check flights\n  offset-ledger check flights --data --since 1h --refused\n"
    "  offset-ledger check --system\n  offset-ledger check --folder dags/pipelines",
)
def run_check(arguments: Namespace) -> Outcome:
    """Check a pipeline file, and whether its topic is there and its table fits; or data, schema or system.

    Raises:
        UsageError: a pipeline is needed, or an option is for --data.
    """
    instead = {"data": check_data, "schema": check_schema, "system": check_system}.get(arguments.instead)
    see = f"(see: {arguments.prog} check --help)"
    if arguments.pipeline is None and instead is not check_system and arguments.folder is None:
        raise UsageError(f"the following arguments are required: PIPELINE {see}")
    sample = ("records", "partition", "from_offset", "since", "refused")
    if instead is not check_data and (given := [name for name in sample if getattr(arguments, name)]):
        raise UsageError(f"--{given[0].replace('_', '-')} needs --data {see}")
    if arguments.folder is not None:
        if arguments.pipeline is not None:
            raise UsageError(f"--folder checks every file; leave PIPELINE out {see}")
        return _check_folder(arguments.folder)
    if instead is not None:
        topics = Topics.TOGETHER if instead is check_system else Topics.EACH
        return run_verb(Namespace(**{**vars(arguments), "run": instead, "topics": topics}))
    from offset_ledger.decoding.key_and_headers import check_defaults
    from offset_ledger.interfaces.airflow.notify import wrong_notifiers
    from offset_ledger.operations.check.diff import check_topic, compare_table
    from offset_ledger.pipeline_file.envelope import notes_on
    from offset_ledger.pipeline_file.parse import check_name
    from offset_ledger.steps.validate.step import read_suite

    pipeline = pipeline_of(arguments)
    check_name(pipeline)
    check_defaults(pipeline.record)
    read_suite(pipeline)
    if wrong := list(wrong_notifiers(pipeline)):
        raise ConfigurationError("\n".join(wrong))
    topic, about_topic = check_topic(pipeline)
    table, about_table = compare_table(pipeline)
    notes = notes_on(pipeline.record)
    data = {"pipeline": pipeline.name, "config_hash": pipeline.config_hash, "topic": topic, "table": table}
    lines = [f"{pipeline.path}: no mistakes", about_topic, about_table, *notes]
    away = topic == "not asked" or table == "not compared"
    return Outcome(data | {"notes": notes}, "\n".join(lines), TransientError.exit_code if away else 0)


def _check_folder(folder: Path) -> Outcome:
    """Check the files of a folder, also against each other, and their suites, without servers."""
    from offset_ledger.decoding.key_and_headers import check_defaults
    from offset_ledger.pipeline_file.parse import parse_all
    from offset_ledger.steps.validate.step import read_suite

    pipelines, problems = parse_all(folder), list[str]()
    for each in pipelines:
        place = f"{each.path}: "
        try:
            check_defaults(each.record)
            place = ""  # a suite's mistakes have their own
            read_suite(each)
        except ConfigurationError as error:
            problems.append(f"{place}{error}")
    if problems:
        raise PipelineFileError(problems)
    data = [{"pipeline": each.name, "config_hash": each.config_hash} for each in pipelines]
    return Outcome(data, f"{folder}: {counted(len(pipelines), 'pipeline file')}, no mistakes")


def check_data(arguments: Namespace) -> Outcome:
    """Decode some records of the topic, the next ones for example; nothing is written."""
    from offset_ledger.operations.check.decode_sample import Choice, decode_sample

    choice = Choice(arguments.partition, arguments.from_offset, parse_since(arguments.since))
    pipeline = pipeline_of(arguments)
    sample = decode_sample(pipeline, choice, arguments.records or 10)
    rows = () if arguments.refused else sample.rows
    data = {
        "pipeline": pipeline.name,
        "topic": pipeline.source.topic,
        "note": sample.start.note,
        "from": {partition: first for partition, (first, _) in sample.start.ranges.items()},
        "records": sample.records,
        "skipped": sample.skipped,
        "notes": list(sample.notes),
        "rows": [
            {
                "partition": row.partition,
                "offset": row.offset,
                "event_id": row.key.get("event_id"),
                "key": {name: _exact(value) for name, value in row.key.items()},
                "publish_at": _exact(row.publish_at),
                "schema_id": row.schema_id,
                "deleted": row.deleted,
                "columns": {name: _exact(value) for name, value in row.values.items()},
            }
            for row in rows
        ],
        "refusals": [
            {
                "partition": each.partition,
                "offset": each.offset,
                "schema_id": each.schema_id,
                "reasons": list(each.reasons),
                "value_base64": None if each.value is None else b64encode(each.value).decode(),
            }
            for each in sample.refusals
        ],
    }
    return Outcome(data, _preview_text(sample, rows))


def _exact(value: Any) -> Any:
    """The value for --json, bytes as Postgres prints them."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if hasattr(value, "isoformat") else value


def _preview_text(sample: Sample, rows: tuple[SampleRow, ...]) -> str:
    rest = f"{len(sample.refusals)} refused, {sample.skipped} skipped; nothing was written"
    counts = f"{counted(len(sample.rows), 'row')}, {rest}"
    cells, names = [], dict.fromkeys(name for row in rows for name in row.values)
    for row in rows:
        place = {"partition": row.partition, "offset": row.offset, **row.key, "publish_at": row.publish_at}
        place |= {} if row.schema_id is None else {"schema": row.schema_id}
        place |= {"deleted": True} if row.deleted else {}
        values = {name: row.values.get(name, "(kept)") for name in names}
        cells.append({name: cut(_exact(value)) for name, value in (place | values).items()})
    lines = [sample.start.note, fitting(cells) if rows else ""]
    reasons = []
    for each in sample.refusals:
        place, value = {"partition": str(each.partition), "offset": str(each.offset)}, shown_bytes(each.value)
        for reason in each.reasons:
            texts = {name: cut(reason[name], 100) for name in ("path", "code", "detail")}
            reasons.append({**place, **texts, "value": value})
    if reasons:
        lines.append(fitting(reasons))
    if not sample.records:
        lines.append("no records from there on")
    lines += sample.notes
    return "\n\n".join([*filter(None, lines), counts])


_WIDTH = 200  # wider than most terminals: it compares side by side


def check_schema(arguments: Namespace) -> Outcome:
    """Compare the latest schema, the pipeline file and the table, and say what each difference means."""
    from offset_ledger.operations.check.diff import diff

    pipeline = pipeline_of(arguments)
    compared = diff(pipeline)
    data = {"pipeline": pipeline.name, "differs": compared.differs, **asdict(compared)}
    differs = "these differences cost records or stop a run: see !"
    summary = differs if compared.differs else "no difference that matters"
    schemas = [f"schema: {', '.join(compared.schemas)}"] if compared.schemas else []
    cells, marks = [], []
    for line in compared.lines:
        sign = "!" if any(mark.matters for mark in line.marks) else "+" if line.marks else ""
        texts = {name: cut(getattr(line, name)) for name in ("path", "schema", "column", "file", "table")}
        cells.append({"": sign, **texts})
        place = line.path or line.column or "table"
        marks += [f"{'!' if mark.matters else '+'} {place}: {mark.text}" for mark in line.marks]
    lines = [*schemas, *compared.notes, "", fitting(cells, _WIDTH), "", *marks, summary]
    return Outcome(data, "\n".join(lines), 1 if compared.differs else 0)


_CELL, _BYTES = 40, 32


def cut(value: Any, limit: int = _CELL) -> str:
    """The text of a value in one line, cut; NULL is empty."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def shown_bytes(value: bytes | None) -> str:
    """The first bytes: as text where they are text, else as Postgres prints a bytea."""
    if value is None:
        return ""
    text = value.decode(errors="surrogateescape")
    if (head := text[:_BYTES]).isprintable():
        return head + ("…" if len(text) > _BYTES else "")
    return f"\\x{value[:_BYTES].hex()}" + ("…" if len(value) > _BYTES else "")


def fitting(rows: Sequence[Mapping[str, str]], width: int | None = None) -> str:
    """Return a table with a line for each row, or a block for each if that is wider than the terminal.

    A text stays as it is: a table would make 1.5 of 1.50.
    """
    from tabulate import tabulate

    names = list(dict.fromkeys(name for row in rows for name in row))
    full = [[row.get(name, "") for name in names] for row in rows]
    text = tabulate(full, headers=names, disable_numparse=True)
    if max(map(len, text.splitlines())) <= (width or shutil.get_terminal_size().columns):
        return text
    size = max(map(len, names))
    blocks = []
    for number, row in enumerate(rows, start=1):
        lines = [f"{name:{size}} | {value}".rstrip() for name, value in row.items()]
        blocks.append("\n".join([f"-[ {number} ]".ljust(max(map(len, lines)), "-"), *lines]))
    return "\n".join(blocks)


_COUNTABLE = {"problem", "warning"}


def check_system(arguments: Namespace) -> Outcome:
    """Check what pipelines need: packages, servers, versions, rights, clocks, tables and topics."""
    from offset_ledger.operations.doctor.run import examine_all, examine_pipelines

    findings = list(examine_pipelines([pipeline_of(arguments)]) if arguments.pipeline else examine_all())
    levels = Counter(str(finding.level) for finding in findings)
    counts = ", ".join(
        counted(count, level) if level in _COUNTABLE else f"{count} {level}" for level, count in sorted(levels.items())
    )
    lines, data = [], []
    for each in findings:
        lines.append(f"{each.level:8} {each.subject}: {each.text}")
        lines += [f"{'':8} to do: {each.remedy}"] if each.remedy else []
        data.append({"subject": each.subject, "level": each.level, "found": each.text, "remedy": each.remedy})
    return Outcome(data, "\n".join([*lines, "", counts]), 1 if levels["problem"] else 0)


_SHELLS = ("bash", "zsh", "fish")


@verb(
    Option("shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}"),
    example='eval "$(offset-ledger completion bash)"  # in ~/.bashrc',
)
def run_completion(arguments: Namespace) -> Outcome:
    """Print a script that lets your shell complete verbs, options and pipelines."""
    from argcomplete.shell_integration import shellcode

    script = shellcode([arguments.prog], shell=arguments.shell)
    return Outcome({"shell": arguments.shell, "script": script}, script)
