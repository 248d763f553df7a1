"""``publish``: a file of records to a topic."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.base.units import counted
from offset_ledger.errors import ConfigurationError, OffsetLedgerError, PublishFailed
from offset_ledger.interfaces.cli.completer import complete_topics
from offset_ledger.interfaces.cli.verbs import Option, Outcome, connection, from_0, name_and_value, say, verb
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.producer.settings import COMPRESSIONS, Danger
from offset_ledger_kit.publishing.serializers import SERIALIZERS

if TYPE_CHECKING:
    from offset_ledger.base.progress import OnProgress
    from offset_ledger.outside.connections import Connection
    from offset_ledger.outside.producer.publisher import Summary
    from offset_ledger.outside.producer.record import RecordLimits
    from offset_ledger.pipeline_file.pipeline import JsonPath
    from offset_ledger_kit.publishing.formats.registered import SchemaChoice
    from offset_ledger_kit.publishing.forms import Form
    from offset_ledger_kit.publishing.record_file import RecordFile
    from offset_ledger_kit.publishing.serializers import Serializer

CLIENTS = ("librdkafka", "kafka-python")

_OPTIONS = {"key": "--key-schema", "value": "--schema"}
SCHEMA_SERIALIZERS = ("avro", "protobuf", "json_schema")
_SUBJECTS = ("topic", "record", "topic_record")
_REFERENCE = re.compile(r"(.+)=([^=]+):([1-9][0-9]{0,8})")


def _schema_arguments() -> Iterator[Option]:
    for side, option in _OPTIONS.items():
        yield Option(option, type=Path, metavar="FILE", help=f"of {side}s by a schema (the latest registered)")
        yield Option(f"{option}-message", metavar="NAME", help="the full name of the Protobuf message")
        subject = [f"{option}-subject", *(["--subject"] if side == "value" else [])]
        yield Option(*subject, choices=_SUBJECTS, help="where it is registered (topic)")
        where = "where its schema is named: in front of it, or by GUID in a header (prefix)"
        yield Option(f"{option}-id", choices=("prefix", "header"), help=where)
        help_ = "a schema of the registry that the file refers to by that name; repeat it"
        yield Option(f"{option}-reference", action="append", metavar="NAME=SUBJECT:VERSION", help=help_)
    yield Option("--register", action="store_true", help="register the schemas of these files where they are new")
    yield Option("--registry", default="registry_default", help="Airflow connection id (registry_default)")


@verb(
    Option("topic", metavar="TOPIC", help="the Kafka topic", complete=complete_topics),
    Option("--file", required=True, type=Path, help="JSON lines, or CSV with a line of names"),
    Option(
        "--format",
        choices=["jsonl", "csv", *SCHEMA_SERIALIZERS],
        help="of the file (csv if its name ends so, else jsonl); those of a schema are --value-serializer",
    ),
    Option("--key", metavar="PATH", help="where the key is in a line, such as $.id (default: no key)"),
    Option("--value", metavar="PATH", help="where the value is (default: the whole line)"),
    Option("--key-serializer", choices=[*SERIALIZERS, *SCHEMA_SERIALIZERS], help="(string; avro with --key-schema)"),
    Option("--value-serializer", choices=[*SERIALIZERS, *SCHEMA_SERIALIZERS], help="(json)"),
    *_schema_arguments(),
    Option("--stamp", choices=["value", "headers"], help="where a missing event_id and publish_at go (headers)"),
    Option("--partitioner", default="key-hash", help="key-hash, round-robin or module:function (key-hash)"),
    Option("--partition", type=from_0, metavar="N", help="send all to this partition"),
    Option("--compression", choices=COMPRESSIONS, help="(none)"),
    Option("--client", choices=CLIENTS, help="(librdkafka, which publishes whatever is said here)"),
    Option("--acks", choices=["all", "1", "0"], help="(all)"),
    Option("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting under Kafka's name"),
    Option("--allow", action="append", default=[], metavar="DANGER", help=f"one of {', '.join(Danger)}; repeat it"),
    Option(
        "--transactional-id", metavar="ID", help="publish in transactions; run again, it sends only what is missing"
    ),
    connection("kafka_default"),
    example="offset-ledger kafka publish shop.orders --file orders.jsonl --key '$.id'",
)
def run_publish(arguments: Namespace) -> Outcome:
    """Publish a file of records to a topic, as JSON, Avro, Protobuf or JSON Schema."""
    from offset_ledger.base.progress import progress
    from offset_ledger.outside.producer.partitioner import Custom, find_partitioner
    from offset_ledger.outside.producer.settings import read_settings
    from offset_ledger_kit.publishing.file_feed import publish_file

    if arguments.transactional_id == "":
        raise ConfigurationError(
            "--transactional-id is empty; give an id, or leave it out to publish without transactions"
        )
    connection, topic, id_ = get_connection(arguments.connection), arguments.topic, arguments.transactional_id
    given = {"compression.type": arguments.compression, "acks": arguments.acks}
    given |= dict(map(name_and_value, arguments.set))
    named = {name: value for name, value in given.items() if value is not None}
    settings = read_settings(connection.extra, named, allow=arguments.allow, transactional=id_ is not None)
    one: int | None = arguments.partition
    partitioner = find_partitioner(arguments.partitioner) if one is None else Custom(lambda _key, _count: one)
    checked = _file(arguments).check()
    limits = _limits(connection, arguments).of(settings)
    if checked.largest > limits.smallest:
        checked.file.check_sizes(limits)
    with (
        progress(checked.records, "published") as advance,
        _unfinished(connection.extra, arguments, checked.records, advance) as count,
    ):
        summary, before = publish_file(
            connection.extra,
            topic,
            checked,
            settings=settings,
            partitioner=partitioner,
            limits=limits,
            transactional_id=id_,
            on_progress=count,
            on_resumed=lambda done: say(f"{done:,} of {checked.records:,} records are there from an earlier run"),
        )
    return _outcome(topic, summary, before)


def _outcome(topic: str, summary: Summary, before: int) -> Outcome:
    data = {
        "topic": topic,
        "acknowledged": summary.records,
        "failed": summary.failed,
        "retried": summary.retried,
        "already_there": before,
        "seconds": round(summary.seconds, 3),
        "per_second": round(summary.per_second),
    }
    retried = "" if summary.retried is None else f", {summary.retried} retried"
    text = (
        f"{counted(summary.records, 'record')} acknowledged by {topic}, {summary.failed} failed{retried}, "
        f"in {summary.seconds:.1f} s ({summary.per_second:,.0f} records/s)"
    )
    return Outcome(data, text + (f"; {before:,} were there from an earlier run" if before else ""))


@contextmanager
def _unfinished(
    extra: Mapping[str, str], arguments: Namespace, total: int, advance: OnProgress
) -> Iterator[OnProgress]:
    """Count what is acknowledged; if the publication ends early, say how far it came and what the next run sends."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        advance(more)

    try:
        yield count
    except (KeyboardInterrupt, PublishFailed) as error:
        if arguments.transactional_id is None:
            say(
                f"{done:,} of {total:,} records are acknowledged and some more may be stored; the next run sends all "
                "of the file again, with the same event ids: a pipeline merges copies, other readers meet them twice"
            )
        elif isinstance(error, KeyboardInterrupt):
            from offset_ledger_kit.publishing.file_feed import Journal

            again = "the same command sends what is missing"
            try:
                position = Journal(extra, arguments.topic, arguments.transactional_id).read()
                done = position.records if position else 0
                say(f"{done:,} of {total:,} records are committed, and no others are visible; {again}")
            except OffsetLedgerError as unknown:
                say(f"how many of {total:,} records are committed is not known ({unknown}); {again}")
        raise


def _file(arguments: Namespace) -> RecordFile:
    from offset_ledger_kit.publishing.record_file import RecordFile

    form = replace(find_form(arguments), stamp_values=arguments.stamp == "value")
    by_name = "csv" if arguments.file.suffix.lower() == ".csv" else "jsonl"
    given = by_name if arguments.format in (None, *SCHEMA_SERIALIZERS) else arguments.format
    return RecordFile(arguments.file, given, form, _path("--key", arguments.key), _path("--value", arguments.value))


def _path(option: str, text: str | None) -> JsonPath | None:
    from offset_ledger.pipeline_file.json_path import parse_path
    from offset_ledger.pipeline_file.located import Refused

    try:
        return None if text is None else parse_path(text)
    except Refused as refused:
        raise ConfigurationError(f"{option}: {refused.wrong}; {refused.right}") from None


def _limits(connection: Connection, arguments: Namespace) -> RecordLimits:
    from offset_ledger.outside.kafka.client import connect_kafka
    from offset_ledger.outside.producer.record import RecordLimits, fetch_bytes

    with connect_kafka(connection) as kafka:
        count = len(kafka.describe(arguments.topic)["partitions"])
        topic_bytes = int(kafka.settings(arguments.topic, "max.message.bytes")["max.message.bytes"])
    if arguments.partition is not None and not 0 <= arguments.partition < count:
        partitions = "0" if count == 1 else f"0 to {count - 1}"
        raise ConfigurationError(
            f"--partition should be {partitions}, all that {arguments.topic} has, found {arguments.partition}"
        )
    return RecordLimits(topic_bytes, fetch_bytes(connection.extra), arguments.allow)


def find_form(arguments: Namespace) -> Form:
    """The serializers that the arguments name.

    Raises:
        ConfigurationError: they contradict each other, or a schema is not there.
    """
    from offset_ledger_kit.publishing.forms import Form

    by_format = arguments.format if arguments.format in SCHEMA_SERIALIZERS else None
    if by_format and arguments.value_serializer not in (None, by_format):
        raise ConfigurationError(
            f"--format {by_format} and --value-serializer {arguments.value_serializer} are two forms of the value; "
            "leave one out"
        )
    value = arguments.value_serializer or by_format or "json"
    names = {"key": arguments.key_serializer or ("avro" if arguments.key_schema else "string"), "value": value}
    given: dict[str, dict[str, Any]] = {}
    for side, option in _OPTIONS.items():
        options = (option, *(f"{option}-{what}" for what in ("message", "subject", "id", "reference")))
        said = {each: getattr(arguments, each.strip("-").replace("-", "_")) for each in options}
        given[side] = {each: value for each, value in said.items() if value is not None}
        _check(side, names[side], given[side])
    if not set(names.values()) & set(SCHEMA_SERIALIZERS):
        if arguments.register:
            raise ConfigurationError("--register needs --schema or --key-schema")
        return Form(SERIALIZERS[names["key"]], SERIALIZERS[names["value"]])
    from offset_ledger.outside.schema_registry.client import connect_registry
    from offset_ledger_kit.publishing.formats.registered import find_serializer

    registry = connect_registry(get_connection(arguments.registry))
    serializers: dict[str, Serializer] = {}
    for side, name in names.items():
        if name in SCHEMA_SERIALIZERS:
            serializers[side] = find_serializer(_choice(arguments, side, name, given[side]), registry)
        else:
            serializers[side] = SERIALIZERS[name]
    return Form(serializers["key"], serializers["value"])


def _check(side: str, name: str, options: Mapping[str, Any]) -> None:
    """The options of a schema have one, and a message is Protobuf's."""
    file = _OPTIONS[side]
    message = f"{file}-message"
    if options and name not in SCHEMA_SERIALIZERS:
        raise ConfigurationError(
            f"{', '.join(options)} needs --{side}-serializer {' or '.join(SCHEMA_SERIALIZERS)}, found {name}"
        )
    if message in options and name != "protobuf":
        raise ConfigurationError(f"{message} needs --{side}-serializer protobuf, found {name}")
    if (reference := f"{file}-reference") in options and file not in options:
        raise ConfigurationError(f"{reference} needs {file} FILE: a registered schema has its own references; add it")


def _choice(arguments: Namespace, side: str, name: str, given: Mapping[str, Any]) -> SchemaChoice:
    from offset_ledger.outside.schema_registry.client import Reference
    from offset_ledger.pipeline_file.source import SubjectStrategy
    from offset_ledger_kit.publishing.formats.registered import SchemaChoice

    option = _OPTIONS[side]
    matches = [(text, _REFERENCE.fullmatch(text)) for text in given.get(f"{option}-reference", ())]
    if wrong := next((text for text, match in matches if match is None), None):
        raise ConfigurationError(
            f"{option}-reference takes NAME=SUBJECT:VERSION, such as shop.Line=shop.lines-value:1, found {wrong!r}"
        )
    references = tuple(Reference(match[1], match[2], int(match[3])) for _, match in matches if match)
    subject = SubjectStrategy(given.get(f"{option}-subject", SubjectStrategy.TOPIC))
    message = given.get(f"{option}-message")
    file, in_header = given.get(option), given.get(f"{option}-id") == "header"
    return SchemaChoice(arguments.topic, side, name, file, message, subject, arguments.register, references, in_header)
