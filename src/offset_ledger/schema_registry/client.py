"""The client of one schema registry: schemas by id with all they refer to, subjects, and registering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from urllib.parse import quote

from offset_ledger.connections import Connection
from offset_ledger.errors import ConfigurationError, RegistryUnavailable, UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaReference, WriterSchema
from offset_ledger.schema_registry import documents
from offset_ledger.schema_registry.api import Api, NotFound
from offset_ledger.schema_registry.connection import registry_settings
from offset_ledger.schema_registry.documents import Reference, Schema

__all__ = ["LEVELS", "Compatibility", "Reference", "Registry", "connect_registry"]


LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may become the next version of a subject, and else why not."""

    compatible: bool
    reasons: tuple[str, ...] = ()


class Registry:
    """Questions to one registry; the errors are those of :class:`~offset_ledger.schema_registry.api.Api`.

    What has an id or a version never changes, so it is asked for once; what the registry does not know is asked again.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._schemas: dict[int, WriterSchema] = {}
        self._versions: dict[tuple[str, int], Schema] = {}

    def kept_open(self) -> AbstractContextManager[None]:
        """Ask over connections that are kept for the length of the block."""
        return self._api.kept_open()

    def schema(self, schema_id: int) -> WriterSchema | None:
        """The schema with that id, with all it refers to; None where the registry knows no such id.

        Raises:
            UnusableSchema: it is of another language, too large, or refers to what is not there.
        """
        if schema_id not in self._schemas:
            what = f"schema {schema_id}"
            try:
                schema = documents.read_schema(self._api.ask("GET", f"/schemas/ids/{schema_id}"), what)
            except NotFound:
                return None
            references = resolve(schema.references, self._version, what)
            subjects = self._subjects_of(schema_id)
            self._schemas[schema_id] = WriterSchema(schema_id, schema.language, schema.text, references, subjects)
        return self._schemas[schema_id]

    def latest(self, subject: str) -> WriterSchema | None:
        """The latest version of the subject; None where the registry knows no such subject."""
        return self._schema_at(subject, "latest")

    def version(self, subject: str, version: int) -> WriterSchema | None:
        """That version of the subject; None where the registry knows none."""
        return self._schema_at(subject, str(version))

    def subjects(self) -> tuple[str, ...]:
        """All subjects."""
        return documents.texts(self._api.ask("GET", "/subjects"), "the subjects")

    def versions(self, subject: str) -> tuple[int, ...]:
        """The versions of the subject; none where the registry knows no such subject."""
        try:
            return documents.numbers(self._api.ask("GET", f"{_at(subject)}/versions"), f"the versions of {subject!r}")
        except NotFound:
            return ()

    def resolved(self, references: Sequence[Reference]) -> tuple[SchemaReference, ...]:
        """All that these lead to, each before those that need it.

        Raises:
            UnusableSchema: the registry does not have one of them.
        """
        return resolve(references, self._version, "the schema")

    def register(self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()) -> int:
        """Register it as the next version of the subject, unless it is one already; returns its id.

        Raises:
            SchemaRejected: it is invalid, or not compatible with earlier versions.
        """
        schema = Schema(language, text, tuple(references))
        try:
            answer = self._api.ask("POST", f"{_at(subject)}/versions", schema.document())
        except NotFound:
            raise _lost(f"the schema for {subject!r}", "a schema") from None
        return documents.number(documents.mapping(answer, "the answer"), "id", f"the new version of {subject!r}")

    def registered(
        self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()
    ) -> int | None:
        """The id of exactly this schema, if the subject has it."""
        schema = Schema(language, text, tuple(references))
        try:
            answer = self._api.ask("POST", _at(subject), schema.document())
        except NotFound:
            return None
        return documents.number(documents.mapping(answer, "the answer"), "id", f"the schema in {subject!r}")

    def check(
        self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()
    ) -> Compatibility:
        """Whether it may be registered as the next version of the subject, by the level of the subject.

        Raises:
            SchemaRejected: it is invalid.
        """
        schema = Schema(language, text, tuple(references))
        path = f"/compatibility{_at(subject)}/versions?verbose=true"
        try:
            answer = documents.mapping(self._api.ask("POST", path, schema.document()), "the answer")
        except NotFound:
            return Compatibility(True)
        reasons = documents.texts(answer.get("messages") or [], "the reasons")
        return Compatibility(answer.get("is_compatible") is True, reasons)

    def compatibility(self, subject: str) -> str:
        """The level that the subject has, or else all subjects have."""
        try:
            answer = self._api.ask("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
        except NotFound:
            answer = self._api.ask("GET", "/config")
        return documents.text(
            documents.mapping(answer, "the answer"), "compatibilityLevel", f"the level of {subject!r}"
        )

    def set_compatibility(self, subject: str, level: str) -> None:
        """Give the subject a level of its own, one of LEVELS.

        Raises:
            ConfigurationError: it is none of them.
        """
        if level not in LEVELS:
            raise ConfigurationError(f"a compatibility level is one of {', '.join(LEVELS)}, found {level!r}")
        self._api.ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def ready(self) -> bool:
        """Whether it answers as a registry does; False after OFFSET_LEDGER_RETRY_SECONDS."""
        try:
            documents.texts(self._api.ask("GET", "/schemas/types"), "the types of schemas")
        except RegistryUnavailable:
            return False
        return True

    def _schema_at(self, subject: str, version: str) -> WriterSchema | None:
        try:
            answer = self._api.ask("GET", f"{_at(subject)}/versions/{version}")
        except NotFound:
            return None
        what = f"version {version} of {subject!r}"
        return self.schema(documents.number(documents.mapping(answer, what), "id", what))

    def _version(self, reference: Reference) -> Schema:
        at = (reference.subject, reference.version)
        if at not in self._versions:
            what = f"version {reference.version} of {reference.subject!r}"
            path = f"{_at(reference.subject)}/versions/{reference.version}?deleted=true"
            try:
                self._versions[at] = documents.read_schema(self._api.ask("GET", path), what)
            except NotFound:
                raise _lost(f"the reference {reference.name!r}", what) from None
        return self._versions[at]

    def _subjects_of(self, schema_id: int) -> tuple[tuple[str, int], ...]:
        what = f"the versions of schema {schema_id}"
        try:
            answer = self._api.ask("GET", f"/schemas/ids/{schema_id}/versions")
        except NotFound:
            return ()
        versions = [documents.mapping(each, what) for each in documents.sequence(answer, what)]
        return tuple(
            (documents.text(each, "subject", what), documents.number(each, "version", what)) for each in versions
        )


def connect_registry(connection: Connection) -> Registry:
    """A client of the registry; nothing is asked yet.

    Raises:
        ConfigurationError: the connection has a value that no registry client takes.
    """
    return Registry(Api(registry_settings(connection)))


def _at(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _lost(what: str, of: str) -> UnusableSchema:
    return UnusableSchema(f"{what} leads to {of}, which the schema registry does not have; register that first")


MAX_REFERENCES = 500
MAX_CHARACTERS = 4 * 1024 * 1024  # together: no schema is compiled with more


def resolve(
    references: Iterable[Reference], fetch: Callable[[Reference], Schema], what: str
) -> tuple[SchemaReference, ...]:
    """What ``what`` refers to; ``fetch`` gives the schema of a reference.

    Raises:
        UnusableSchema: the references form a circle, are too many, or mean two schemas by the same name.
    """
    resolved: dict[str, SchemaReference] = {}
    for reference in _in_order(references, fetch, what):
        same = resolved.setdefault(reference.name, reference)
        if same.text != reference.text:
            raise UnusableSchema(
                f"{what} refers by {reference.name!r} to version {same.version} of {same.subject!r} and to version "
                f"{reference.version} of {reference.subject!r}, which differ; register it with one of them"
            )
    return tuple(resolved.values())


def _in_order(
    wanted: Iterable[Reference], fetch: Callable[[Reference], Schema], what: str
) -> Iterator[SchemaReference]:
    seen: set[Reference] = set()
    characters = 0
    stack: list[tuple[Reference | None, Schema | None, Iterator[Reference]]] = [(None, None, iter(wanted))]
    while stack:
        reference, schema, following = stack[-1]
        needed = next(following, None)
        if needed is None:
            stack.pop()
            if reference and schema:
                yield SchemaReference(reference.name, reference.subject, reference.version, schema.text)
            continue
        if any(needed == open_ for open_, _, _ in stack):
            raise UnusableSchema(
                f"{what} refers to version {needed.version} of {needed.subject!r}, which refers to itself"
            )
        if needed in seen:
            continue
        seen.add(needed)
        if len(seen) > MAX_REFERENCES:
            raise UnusableSchema(f"{what} refers to more than {MAX_REFERENCES} other schemas; register it with fewer")
        needed_schema = fetch(needed)
        characters += len(needed_schema.text)
        if characters > MAX_CHARACTERS:
            raise UnusableSchema(
                f"{what} refers to schemas of more than {MAX_CHARACTERS} characters together; register it with less"
            )
        stack.append((needed, needed_schema, iter(needed_schema.references)))
