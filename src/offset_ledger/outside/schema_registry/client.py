"""The client of one schema registry: schemas by id with all they refer to, subjects, and registering.

Our own, because confluent-kafka's (2.16.0) reads a body of 200 MB whole, waits 30 s for one that comes byte by byte,
raises AttributeError or TypeError for unexpected bodies, and caches the latest version of a subject forever.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Annotated, TypeVar
from urllib.parse import quote
from uuid import UUID

import msgspec

from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.errors import ConfigurationError, RegistryUnavailable, UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaRef, SchemaReference, WriterSchema
from offset_ledger.outside.connections import Connection
from offset_ledger.outside.schema_registry.connection import Api, registry_settings

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
T = TypeVar("T")
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]  # one of Java's


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference by ``name`` to ``version`` of ``subject``."""

    name: str
    subject: str
    version: _Int


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema as it was registered, its references still to be resolved."""

    language: SchemaLanguage
    text: str
    references: tuple[Reference, ...] = ()

    def document(self) -> dict[str, object]:
        """Return the schema as the API writes it."""
        references = [asdict(each) for each in self.references]
        return {"schemaType": str(self.language), "schema": self.text, "references": references}


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Return whether a schema may become the next version of a subject, and else why not."""

    compatible: bool
    reasons: tuple[str, ...] = ()


class _Document(msgspec.Struct, rename="camel"):
    """A schema as the registry answers with it; the GUID where it knows them."""

    schema: str
    schema_type: str | None = None
    references: tuple[Reference, ...] | None = None
    guid: UUID | None = None


class _Version(msgspec.Struct):
    subject: str
    version: _Int


class _Numbered(msgspec.Struct):
    id: _Int


class _InContext(_Numbered):
    context: str | None = None


class _Compatible(msgspec.Struct):
    is_compatible: bool = False
    messages: tuple[str, ...] | None = None


class _Level(msgspec.Struct, rename="camel"):
    compatibility_level: str


class Registry:
    """Questions to one registry; its errors are those of :class:`.connection.Api`.

    What has an id or a version never changes, so it is asked for once; what the registry does not know is asked again.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._schemas: dict[int, WriterSchema] = {}
        self._guids: dict[UUID, WriterSchema] = {}
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
            what, of_versions = f"schema {schema_id}", f"the versions of schema {schema_id}"
            document = self._api.ask("GET", f"/schemas/ids/{schema_id}")
            if document is None:
                return None
            answer = _read(document, _Document, what)
            schema = _schema_of(answer, what)
            references = resolve(schema.references, self._version, what)
            # Records keep the id of a deleted subject, which the registry knows if the delete was soft.
            versions = self._api.ask("GET", f"/schemas/ids/{schema_id}/versions?deleted=true")
            described = _read([] if versions is None else versions, tuple[_Version, ...], of_versions)
            subjects = tuple((_held(each.subject, "a subject", of_versions), each.version) for each in described)
            self._schemas[schema_id] = WriterSchema(
                schema_id, schema.language, schema.text, references, subjects, answer.guid
            )
        return self._schemas[schema_id]

    def by_guid(self, guid: UUID) -> WriterSchema | None:
        """Return the schema with that GUID, under its id; None if the registry does not know it, or no GUIDs at all.

        Raises:
            UnusableSchema: as :meth:`schema`; or it is of another context than the URL of the registry.
        """
        if guid in self._guids:
            return self._guids[guid]
        what = f"the ids of schema GUID {guid}"
        try:
            answer = self._api.ask("GET", f"/schemas/guids/{guid}/ids")
        except ConfigurationError:
            self._api.ask("GET", "/schemas/types")  # raises where this is no registry
            return None
        named = _read(answer or [], tuple[_InContext, ...], what)
        for each in named:
            schema = self.schema(each.id)
            if schema and schema.guid == guid:
                return self._guids.setdefault(guid, schema)
        if named:
            contexts = ", ".join(_read(each.context, str, f"the context of {what}") for each in named)
            raise UnusableSchema(f"it is in the context {contexts}; add /contexts/NAME to the URL of the registry")
        return None

    def latest(self, subject: str) -> WriterSchema | None:
        """The latest version of the subject; None where the registry knows no such subject."""
        return self._schema_at(subject, "latest")

    def version(self, subject: str, version: int) -> WriterSchema | None:
        """Return that version of the subject; None if the registry knows none."""
        return self._schema_at(subject, str(version))

    def subjects(self) -> tuple[str, ...]:
        """Return all subjects."""
        return _read(self._api.ask("GET", "/subjects"), tuple[str, ...], "the subjects")

    def versions(self, subject: str) -> tuple[int, ...]:
        """The versions of the subject; none where the registry knows no such subject."""
        answer = self._api.ask("GET", f"{_at(subject)}/versions")
        return _read([] if answer is None else answer, tuple[_Int, ...], f"the versions of {subject!r}")

    def resolved(self, references: Sequence[Reference]) -> tuple[SchemaReference, ...]:
        """Return all that these lead to, each before those that need it.

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
        answer = self._api.ask("POST", f"{_at(subject)}/versions", schema.document())
        if answer is None:
            raise _lost(f"the schema for {subject!r}", "a schema")
        return _read(answer, _Numbered, f"the new version of {subject!r}").id

    def registered(
        self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()
    ) -> int | None:
        """The id of exactly this schema, if the subject has it."""
        answer = self._api.ask("POST", _at(subject), Schema(language, text, tuple(references)).document())
        if answer is None:
            return None
        return _read(answer, _Numbered, f"the schema in {subject!r}").id

    def check(
        self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()
    ) -> Compatibility:
        """Return whether it may be registered as the next version of the subject, by the level of the subject.

        Raises:
            SchemaRejected: it is invalid.
        """
        schema = Schema(language, text, tuple(references))
        path = f"/compatibility{_at(subject)}/versions?verbose=true"
        if (answer := self._api.ask("POST", path, schema.document())) is None:
            return Compatibility(True)
        said = _read(answer, _Compatible, f"whether a schema fits {subject!r}")
        return Compatibility(said.is_compatible, said.messages or ())

    def compatibility(self, subject: str) -> str:
        """The level that the subject has, or else all subjects have."""
        answer = self._api.ask("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
        if answer is None:
            answer = self._api.ask("GET", "/config")
        return _read(answer, _Level, f"the level of {subject!r}").compatibility_level

    def set_compatibility(self, subject: str, level: str) -> None:
        """Give the subject a level of its own, one of LEVELS.

        Raises:
            ConfigurationError: it is none of them.
        """
        if level not in LEVELS:
            raise ConfigurationError(f"a compatibility level is one of {', '.join(LEVELS)}, found {level!r}")
        self._api.ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def ready(self) -> bool:
        """Return whether it answers as a registry does; False after OFFSET_LEDGER_RETRY_SECONDS."""
        try:
            _read(self._api.ask("GET", "/schemas/types"), tuple[str, ...], "the types of schemas")
        except RegistryUnavailable:
            return False
        return True

    def _schema_at(self, subject: str, version: str) -> WriterSchema | None:
        answer = self._api.ask("GET", f"{_at(subject)}/versions/{version}")
        if answer is None:
            return None
        return self.schema(_read(answer, _Numbered, f"version {version} of {subject!r}").id)

    def _version(self, reference: Reference) -> Schema:
        at = (reference.subject, reference.version)
        if at not in self._versions:
            what = f"version {reference.version} of {reference.subject!r}"
            document = self._api.ask("GET", f"{_at(reference.subject)}/versions/{reference.version}?deleted=true")
            if document is None:
                raise _lost(f"the reference {reference.name!r}", what)
            self._versions[at] = _schema_of(_read(document, _Document, what), what)
        return self._versions[at]


def connect_registry(connection: Connection) -> Registry:
    """A client of the registry; nothing is asked yet.

    Raises:
        ConfigurationError: the connection has a value that no registry client takes.
    """
    return Registry(Api(registry_settings(connection)))


def schema_or_problem(registry: Registry, ref: SchemaRef) -> WriterSchema | SchemaProblem | None:
    """The schema of this id or GUID, or why nobody can read it; None where the registry does not know it."""
    try:
        return registry.by_guid(ref) if isinstance(ref, UUID) else registry.schema(ref)
    except UnusableSchema as error:  # one record that names it does not stop the others
        return SchemaProblem(str(error))


def _at(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _lost(what: str, of: str) -> UnusableSchema:
    return UnusableSchema(f"{what} leads to {of}, which the schema registry does not have; register that first")


MAX_REFERENCES = 500
MAX_CHARACTERS = 4 * 1024 * 1024  # together: no schema is compiled with more


def resolve(
    references: Iterable[Reference], fetch: Callable[[Reference], Schema], what: str
) -> tuple[SchemaReference, ...]:
    """The schemas that ``what`` refers to; ``fetch`` gives the schema of a reference.

    Raises:
        UnusableSchema: the references form a circle, are too many, or mean two schemas by the same name.
    """
    resolved: dict[str, SchemaReference] = {}
    seen: set[Reference] = set()
    characters = 0
    stack: list[tuple[Reference | None, str, Iterator[Reference]]] = [(None, "", iter(references))]
    while stack:
        reference, text, following = stack[-1]
        needed = next(following, None)
        if needed is None:
            stack.pop()
            if reference:
                own = SchemaReference(reference.name, reference.subject, reference.version, text)
                same = resolved.setdefault(reference.name, own)
                if same.text != text:
                    raise UnusableSchema(
                        f"{what} refers by {own.name!r} to version {same.version} of {same.subject!r} and to version "
                        f"{own.version} of {own.subject!r}, which differ; register it with one of them"
                    )
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
        schema = fetch(needed)
        characters += len(schema.text)
        if characters > MAX_CHARACTERS:
            raise UnusableSchema(
                f"{what} refers to schemas of more than {MAX_CHARACTERS} characters together; register it with less"
            )
        stack.append((needed, schema.text, iter(schema.references)))
    return tuple(resolved.values())


def _read(document: object, form: type[T], what: str) -> T:
    """The document in this form.

    Raises:
        RegistryUnavailable: it has another one.
    """
    try:
        return msgspec.convert(document, form)
    except msgspec.ValidationError as error:
        raise RegistryUnavailable(
            f"{what}: the schema registry answered in another form ({error}); check that the connection names a "
            "schema registry"
        ) from None


def _schema_of(answer: _Document, what: str) -> Schema:
    """The schema of an answer.

    Raises:
        UnusableSchema: it is of another language, or has a text that nothing can hold.
    """
    language = SchemaLanguage.AVRO if answer.schema_type is None else answer.schema_type
    if language not in set(SchemaLanguage):
        known = ", ".join(SchemaLanguage)
        raise UnusableSchema(
            f"{what} is of type {language!r}, which is none of {known}; read a topic that has one of these"
        )
    for reference in answer.references or ():
        _held(f"{reference.name}{reference.subject}", "a reference", what)
    return Schema(SchemaLanguage(language), _held(answer.schema, "the text", what), answer.references or ())


def _held(text: str, part: str, what: str) -> str:
    """Return the text after checking that UTF-8 and Postgres can hold it.

    Raises:
        UnusableSchema: they cannot.
    """
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        raise UnusableSchema(
            f"{part} of {what} has U+0000 or half a surrogate pair, which no text may have; correct it"
        )
    return text
