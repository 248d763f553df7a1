"""The client of one schema registry: schemas by id with all they refer to, subjects, and registering."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from offset_ledger.connections import Connection
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.errors import ConfigurationError, RegistryUnavailable, UnusableSchema
from offset_ledger.model.writer_schema import SchemaLanguage, SchemaRef, SchemaReference, WriterSchema
from offset_ledger.schema_registry.connection import Api, registry_settings

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


@dataclass(frozen=True, slots=True)
class Reference:
    """That a schema refers to ``version`` of ``subject`` by ``name``."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema as it was registered, its references still to be resolved."""

    language: SchemaLanguage
    text: str
    references: tuple[Reference, ...] = ()

    def document(self) -> dict[str, object]:
        """As the API writes it."""
        references = [asdict(each) for each in self.references]
        return {"schemaType": str(self.language), "schema": self.text, "references": references}


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Return whether a schema may become the next version of a subject, and else why not."""

    compatible: bool
    reasons: tuple[str, ...] = ()


class Registry:
    """Questions to one registry; the errors are those of :class:`~offset_ledger.schema_registry.connection.Api`.

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
            schema = _read_schema(document, what)
            references = resolve(schema.references, self._version, what)
            # Records keep the id of a subject that is deleted, as far as the registry knows it: softly.
            versions = self._api.ask("GET", f"/schemas/ids/{schema_id}/versions?deleted=true")
            versions = [] if versions is None else _sequence(versions, of_versions)
            described = [_mapping(each, of_versions) for each in versions]
            subjects = tuple(
                (_text(each, "subject", of_versions), _number(each, "version", of_versions)) for each in described
            )
            guid = _guid(_mapping(document, what), what)
            self._schemas[schema_id] = WriterSchema(schema_id, schema.language, schema.text, references, subjects, guid)
        return self._schemas[schema_id]

    def by_guid(self, guid: UUID) -> WriterSchema | None:
        """The schema with that GUID, under its id; None where the registry knows no such one, or no GUIDs at all.

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
        named = [_mapping(each, what) for each in _sequence(answer or [], what)]
        for each in named:
            schema = self.schema(_number(each, "id", what))
            if schema and schema.guid == guid:
                return self._guids.setdefault(guid, schema)
        if named:
            contexts = ", ".join(_text(each, "context", what) for each in named)
            raise UnusableSchema(f"it is in the context {contexts}; add /contexts/NAME to the URL of the registry")
        return None

    def latest(self, subject: str) -> WriterSchema | None:
        """The latest version of the subject; None where the registry knows no such subject."""
        return self._schema_at(subject, "latest")

    def version(self, subject: str, version: int) -> WriterSchema | None:
        """That version of the subject; None where the registry knows none."""
        return self._schema_at(subject, str(version))

    def subjects(self) -> tuple[str, ...]:
        """All subjects."""
        return _texts(self._api.ask("GET", "/subjects"), "the subjects")

    def versions(self, subject: str) -> tuple[int, ...]:
        """The versions of the subject; none where the registry knows no such subject."""
        answer, what = self._api.ask("GET", f"{_at(subject)}/versions"), f"the versions of {subject!r}"
        versions = [] if answer is None else _sequence(answer, what)
        return tuple(_number({"element": each}, "element", what) for each in versions)

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
        answer = self._api.ask("POST", f"{_at(subject)}/versions", schema.document())
        if answer is None:
            raise _lost(f"the schema for {subject!r}", "a schema")
        return _number(_mapping(answer, "the answer"), "id", f"the new version of {subject!r}")

    def registered(
        self, subject: str, language: SchemaLanguage, text: str, references: Sequence[Reference] = ()
    ) -> int | None:
        """The id of exactly this schema, if the subject has it."""
        answer = self._api.ask("POST", _at(subject), Schema(language, text, tuple(references)).document())
        if answer is None:
            return None
        return _number(_mapping(answer, "the answer"), "id", f"the schema in {subject!r}")

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
        reasons = _texts(_mapping(answer, "the answer").get("messages") or [], "the reasons")
        return Compatibility(answer.get("is_compatible") is True, reasons)

    def compatibility(self, subject: str) -> str:
        """The level that the subject has, or else all subjects have."""
        answer = self._api.ask("GET", f"/config/{quote(subject, safe='')}?defaultToGlobal=true")
        if answer is None:
            answer = self._api.ask("GET", "/config")
        return _text(_mapping(answer, "the answer"), "compatibilityLevel", f"the level of {subject!r}")

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
            _texts(self._api.ask("GET", "/schemas/types"), "the types of schemas")
        except RegistryUnavailable:
            return False
        return True

    def _schema_at(self, subject: str, version: str) -> WriterSchema | None:
        answer = self._api.ask("GET", f"{_at(subject)}/versions/{version}")
        if answer is None:
            return None
        what = f"version {version} of {subject!r}"
        return self.schema(_number(_mapping(answer, what), "id", what))

    def _version(self, reference: Reference) -> Schema:
        at = (reference.subject, reference.version)
        if at not in self._versions:
            what = f"version {reference.version} of {reference.subject!r}"
            document = self._api.ask("GET", f"{_at(reference.subject)}/versions/{reference.version}?deleted=true")
            if document is None:
                raise _lost(f"the reference {reference.name!r}", what)
            self._versions[at] = _read_schema(document, what)
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


def _read_schema(document: object, what: str) -> Schema:
    """The schema of an answer.

    Raises:
        RegistryUnavailable: the answer has another form.
        UnusableSchema: it is of another language.
    """
    answer = _mapping(document, what)
    language = _text(answer, "schemaType", what) if answer.get("schemaType") is not None else SchemaLanguage.AVRO
    if language not in set(SchemaLanguage):
        known = ", ".join(SchemaLanguage)
        raise UnusableSchema(
            f"{what} is of type {language!r}, which is none of {known}; read a topic that has one of these"
        )
    references = _sequence(answer.get("references") or [], f"references of {what}")
    described = [_mapping(each, f"a reference of {what}") for each in references]
    refers = (
        Reference(_text(r, "name", what), _text(r, "subject", what), _number(r, "version", what)) for r in described
    )
    return Schema(SchemaLanguage(language), _text(answer, "schema", what), tuple(refers))


def _mapping(document: object, what: str) -> Mapping[str, Any]:
    """Return the document, if it is a JSON object."""
    if not isinstance(document, dict):
        raise _malformed(what, "an object", document)
    return document


def _sequence(document: object, what: str) -> Sequence[Any]:
    """Return the document, if it is a JSON array."""
    if not isinstance(document, list):
        raise _malformed(what, "an array", document)
    return document


def _text(members: Mapping[str, Any], name: str, what: str) -> str:
    """The string of that name, which UTF-8 and Postgres can hold."""
    value = members.get(name)
    if not isinstance(value, str):
        raise _malformed(f"{name} of {what}", "a string", value)
    if "\0" in value or any("\ud800" <= each <= "\udfff" for each in value):
        raise UnusableSchema(
            f"{name} of {what} has U+0000 or half a surrogate pair, which no text may have; correct it"
        )
    return value


def _guid(members: Mapping[str, Any], what: str) -> UUID | None:
    """The GUID, where the registry knows them."""
    try:
        return UUID(_text(members, "guid", what)) if members.get("guid") is not None else None
    except ValueError:
        raise _malformed(f"guid of {what}", "a UUID", members["guid"]) from None


def _number(members: Mapping[str, Any], name: str, what: str) -> int:
    """The integer of that name, which is one of Java's."""
    value = members.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise _malformed(f"{name} of {what}", "an integer of 32 bits", value)
    return value


def _texts(document: object, what: str) -> tuple[str, ...]:
    """An array of strings."""
    elements = _sequence(document, what)
    wrong = next((each for each in elements if not isinstance(each, str)), None)
    if wrong is not None:
        raise _malformed(what, "strings", wrong)
    return tuple(elements)


def _malformed(what: str, expected: str, value: object) -> RegistryUnavailable:
    kinds = {dict: "an object", list: "an array", str: "a string", type(None): "nothing", bool: "a boolean"}
    return RegistryUnavailable(
        f"{what}: expected {expected} from the schema registry, got {kinds.get(type(value), 'a number')}; check that "
        "the connection names a schema registry"
    )
