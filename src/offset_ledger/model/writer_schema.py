"""The schema that a record was written with, as a schema registry gave it and the ledger keeps it."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

SchemaRef = int | UUID
"""A name of a schema: its id in one registry, or its GUID, which is the same in all of them."""


class SchemaLanguage(StrEnum):
    """The language of a schema, which Confluent's API calls ``schemaType``."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one refers to by ``name``: an Avro full name, an imported .proto file, or a JSON URI."""

    name: str
    subject: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A schema with all that it refers to, each reference before those that need it.

    ``schema_id`` is the registry's, and 0 for a schema from a file; ``subjects`` are the subjects and versions that it
    is registered under. Of the ``guid`` only registries from Confluent Platform 8 on know.
    """

    schema_id: int
    language: SchemaLanguage
    text: str
    references: tuple[SchemaReference, ...] = ()
    subjects: tuple[tuple[str, int], ...] = ()
    guid: UUID | None = None

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all that decides how a record is read."""
        parts = [self.language, self.text, *(part for each in self.references for part in (each.name, each.text))]
        return sha256("\0".join(parts).encode()).hexdigest()
