"""The schemas of ``publish``: its arguments for them, and the serializers that they name."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import ConfigurationError
from offset_ledger.reliability.publishing.serializers import SERIALIZERS

if TYPE_CHECKING:
    from offset_ledger.reliability.publishing.formats.registered import SchemaChoice
    from offset_ledger.reliability.publishing.forms import Form
    from offset_ledger.reliability.publishing.serializers import Serializer
    from offset_ledger.schema_registry.client import Reference

_OPTIONS = {"key": "--key-schema", "value": "--schema"}
SCHEMA_SERIALIZERS = ("avro", "protobuf", "json_schema")
_SUBJECTS = ("topic", "record", "topic_record")
_REFERENCE = re.compile(r"(.+)=([^=]+):([1-9][0-9]{0,8})")


def add_schemas(verb: ArgumentParser) -> None:
    """Add the arguments."""
    for side, option in _OPTIONS.items():
        verb.add_argument(option, type=Path, metavar="FILE", help=f"of {side}s by a schema (the latest registered)")
        verb.add_argument(f"{option}-message", metavar="NAME", help="the full name of the Protobuf message")
        subject = [f"{option}-subject", *(["--subject"] if side == "value" else [])]
        verb.add_argument(*subject, choices=_SUBJECTS, help="where it is registered (topic)")
        help_ = "a schema of the registry that the file refers to by that name; repeat it"
        verb.add_argument(f"{option}-reference", action="append", metavar="NAME=SUBJECT:VERSION", help=help_)
    verb.add_argument("--register", action="store_true", help="register the schemas of these files where they are new")
    verb.add_argument("--registry", default="registry_default", help="Airflow connection id (registry_default)")


def find_form(arguments: Namespace) -> Form:
    """The serializers that the arguments name.

    Raises:
        ConfigurationError: they contradict each other, or a schema is not there.
    """
    from offset_ledger.reliability.publishing.forms import Form

    names = _names(arguments)
    given = {side: _given(arguments, option) for side, option in _OPTIONS.items()}
    for side, options in given.items():
        _check(side, names[side], options)
    if not set(names.values()) & set(SCHEMA_SERIALIZERS):
        if arguments.register:
            raise ConfigurationError("--register needs --schema or --key-schema")
        return Form(SERIALIZERS[names["key"]], SERIALIZERS[names["value"]])
    key, value = _with_schemas(arguments, names)
    return Form(key, value)


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


def _with_schemas(arguments: Namespace, names: Mapping[str, str]) -> Iterator[Serializer]:
    from offset_ledger.connections import get_connection
    from offset_ledger.reliability.publishing.formats.registered import find_serializer
    from offset_ledger.schema_registry.client import connect_registry

    registry = connect_registry(get_connection(arguments.registry))
    for side, name in names.items():
        if name in SCHEMA_SERIALIZERS:
            yield find_serializer(_choice(arguments, side, name), registry)
        else:
            yield SERIALIZERS[name]


def _choice(arguments: Namespace, side: str, name: str) -> SchemaChoice:
    from offset_ledger.config.source import SubjectStrategy
    from offset_ledger.reliability.publishing.formats.registered import SchemaChoice

    option = _OPTIONS[side]
    given = _given(arguments, option)
    subject = SubjectStrategy(given.get(f"{option}-subject", SubjectStrategy.TOPIC))
    message = given.get(f"{option}-message")
    file, references = given.get(option), _references(f"{option}-reference", given)
    return SchemaChoice(arguments.topic, side, name, file, message, subject, arguments.register, references)


def _references(option: str, given: Mapping[str, Any]) -> tuple[Reference, ...]:
    from offset_ledger.schema_registry.client import Reference

    matches = [(text, _REFERENCE.fullmatch(text)) for text in given.get(option, ())]
    if wrong := next((text for text, match in matches if match is None), None):
        raise ConfigurationError(
            f"{option} takes NAME=SUBJECT:VERSION, such as shop.Line=shop.lines-value:1, found {wrong!r}"
        )
    return tuple(Reference(match[1], match[2], int(match[3])) for _, match in matches if match)


def _given(arguments: Namespace, option: str) -> dict[str, Any]:
    """What the arguments say of one schema, by their options."""
    options = (option, *(f"{option}-{what}" for what in ("message", "subject", "reference")))
    said = {each: getattr(arguments, each.strip("-").replace("-", "_")) for each in options}
    return {each: value for each, value in said.items() if value is not None}


def _names(arguments: Namespace) -> Mapping[str, str]:
    """The serializer of each side."""
    by_format = arguments.format if arguments.format in SCHEMA_SERIALIZERS else None
    if by_format and arguments.value_serializer not in (None, by_format):
        raise ConfigurationError(
            f"--format {by_format} and --value-serializer {arguments.value_serializer} are two forms of the value; "
            "leave one out"
        )
    value = arguments.value_serializer or by_format or "json"
    return {"key": arguments.key_serializer or ("avro" if arguments.key_schema else "string"), "value": value}
