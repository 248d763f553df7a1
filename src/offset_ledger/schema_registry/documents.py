"""The JSON documents of a registry, checked: what has another form than Confluent's API says is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offset_ledger.errors import RegistryUnavailable, UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage


@dataclass(frozen=True, slots=True)
class Reference:
    """That a schema refers to ``version`` of ``subject`` by ``name``."""

    name: str
    subject: str
    version: int

    def document(self) -> dict[str, object]:
        """As the API writes it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema as it was registered, its references still to be resolved."""

    language: SchemaLanguage
    text: str
    references: tuple[Reference, ...] = ()

    def document(self) -> dict[str, object]:
        """As the API writes it."""
        references = [each.document() for each in self.references]
        return {"schemaType": str(self.language), "schema": self.text, "references": references}


def read_schema(document: object, what: str) -> Schema:
    """The schema of an answer.

    Raises:
        RegistryUnavailable: the answer has another form.
        UnusableSchema: it is of another language.
    """
    answer = mapping(document, what)
    language = text(answer, "schemaType", what) if answer.get("schemaType") is not None else SchemaLanguage.AVRO
    if language not in set(SchemaLanguage):
        known = ", ".join(SchemaLanguage)
        raise UnusableSchema(
            f"{what} is of type {language!r}, which is none of {known}; read a topic that has one of these"
        )
    references = sequence(answer.get("references") or [], f"references of {what}")
    return Schema(
        SchemaLanguage(language), text(answer, "schema", what), tuple(_reference(each, what) for each in references)
    )


def _reference(document: object, what: str) -> Reference:
    reference = mapping(document, f"a reference of {what}")
    return Reference(
        text(reference, "name", what), text(reference, "subject", what), number(reference, "version", what)
    )


def mapping(document: object, what: str) -> Mapping[str, Any]:
    """It, if it is a JSON object."""
    if not isinstance(document, dict):
        raise _malformed(what, "an object", document)
    return document


def sequence(document: object, what: str) -> Sequence[Any]:
    """It, if it is a JSON array."""
    if not isinstance(document, list):
        raise _malformed(what, "an array", document)
    return document


def text(members: Mapping[str, Any], name: str, what: str) -> str:
    """The string of that name, which UTF-8 and Postgres can hold."""
    value = members.get(name)
    if not isinstance(value, str):
        raise _malformed(f"{name} of {what}", "a string", value)
    if "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise UnusableSchema(
            f"{name} of {what} has U+0000 or half a surrogate pair, which no text may have; correct it"
        )
    return value


def number(members: Mapping[str, Any], name: str, what: str) -> int:
    """The integer of that name, which is one of Java's."""
    value = members.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise _malformed(f"{name} of {what}", "an integer of 32 bits", value)
    return value


def texts(document: object, what: str) -> tuple[str, ...]:
    """An array of strings."""
    elements = sequence(document, what)
    wrong = next((each for each in elements if not isinstance(each, str)), None)
    if wrong is not None:
        raise _malformed(what, "strings", wrong)
    return tuple(elements)


def numbers(document: object, what: str) -> tuple[int, ...]:
    """An array of integers."""
    return tuple(number({"element": each}, "element", what) for each in sequence(document, what))


def _malformed(what: str, expected: str, value: object) -> RegistryUnavailable:
    kinds = {dict: "an object", list: "an array", str: "a string", type(None): "nothing", bool: "a boolean"}
    return RegistryUnavailable(
        f"{what}: expected {expected} from the schema registry, got {kinds.get(type(value), 'a number')}; check that "
        "the connection names a schema registry"
    )
