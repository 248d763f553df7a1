"""The registry, the pipeline file and the table compared; nothing is written."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from offset_ledger.base.units import counted
from offset_ledger.decoding import subjects
from offset_ledger.decoding.needed_columns import Follower
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.errors import (
    AccessDenied,
    BrokerUnavailable,
    ConfigurationError,
    DatabaseUnavailable,
    UnknownTopic,
    UnusableSchema,
)
from offset_ledger.model.followed_columns import FollowedColumn, effective
from offset_ledger.model.writer_schema import SchemaLanguage, WriterSchema
from offset_ledger.operations.check.compare_schemas import (
    Following,
    KnownSchema,
    Line,
    Table,
    compare,
    sampled_lines,
    unread_lines,
)
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.kafka.client import connect_kafka
from offset_ledger.outside.schema_registry.client import Registry, connect_registry
from offset_ledger.pipeline_file.pipeline import Column, OnConflict, Pipeline
from offset_ledger.pipeline_file.source import Format, SubjectStrategy
from offset_ledger.postgres.ledger import followed_columns, pipelines, schema_boundaries, staging
from offset_ledger.postgres.ledger.database import open_ledger_at, read_only, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.table.change import check_target, is_there
from offset_ledger.postgres.table.fit import column_types, enabled_triggers, misfits, own_references, own_uniques
from offset_ledger.postgres.table.infer import sampled_columns
from offset_ledger.postgres.table.view import to_be_made
from offset_ledger.steps.stage.schemas import SchemaNeeds

_TIMEOUT = 5  # seconds: a person is waiting for the answer


@dataclass(frozen=True, slots=True)
class Diff:
    """The lines, with the names of the schemas that were compared, and notes on the others."""

    schemas: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return whether there is a difference that matters."""
        return any(mark.matters for line in self.lines for mark in line.marks)


def diff(pipeline: Pipeline) -> Diff:
    """Compare schema, file and table, if they are there; without Postgres the schema and the file.

    Raises:
        RegistryUnavailable: the registry does not answer.
        UnusableSchema: a schema cannot be read.
    """
    name, known = f"table {pipeline.target.name}", pipeline
    follower: Follower | None = None
    try:
        database = get_connection(pipeline.target.connection)
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            follower = SchemaNeeds.read(cursor, pipeline, ()).follower if pipeline.follows_schemas else None
            followed = followed_columns.read(cursor, pipeline.name) if pipeline.has_more_columns else ()
            known = with_columns(cursor, pipeline)
            table, kept = Table(False, {}), schema_boundaries.all_writer_schemas(cursor, pipeline.name)
            if is_there(cursor, pipeline.target.name):
                table = Table(True, column_types(cursor, known), (*misfits(cursor, known), *to_be_made(cursor, known)))
            unread = staging.latest_unread(cursor, pipeline.name)
        note = "" if table.exists else f"{name} does not exist yet; the first batch creates it"
    except (ConfigurationError, DatabaseUnavailable, AccessDenied) as error:
        table, kept, follower, followed, unread = Table(None, {}), (), None, (), None
        note = f"{name} was not compared: {error}"
    schemas, notes = known_schemas(pipeline, kept)
    sampled, of_sample = _sampled(pipeline)
    if sampled and not followed:  # nothing is planned yet
        followed = tuple(map(FollowedColumn, sampled))
        known = replace(pipeline, record=effective(pipeline.record, sampled))
    lines = compare(known, schemas, table, Following.of(known, follower, followed, schemas))
    if sampled and not schemas:
        lines += sampled_lines(known, sampled)
    elif unread and not schemas:
        lines += unread_lines(known, *unread)
    notes = (*notes, *of_sample)
    return Diff(tuple(schema.name for schema in schemas), lines, tuple(filter(None, [*notes, note])))


def _sampled(pipeline: Pipeline) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Return the columns of a sample as the topic is now for ``columns: auto``; without a sample, a note on why."""
    if not pipeline.record.sampled:
        return (), ()
    try:
        return sampled_columns(pipeline), ()
    except (ConfigurationError, BrokerUnavailable, AccessDenied, UnknownTopic) as error:
        return (), (f"topic {pipeline.source.topic} was not sampled: {error}",)


def compare_table(pipeline: Pipeline) -> tuple[str, str]:
    """Return whether the table fits the file (fits, missing, to be changed or not compared), and a line about it.

    It is not compared where the server is unavailable.

    Raises:
        TargetMismatch: the table does not fit.
        ConfigurationError: another pipeline fills it, or the connection is wrong.
        AccessDenied: the server refuses the login, or a right is missing.
    """
    table, database = f"table {pipeline.target.name}", get_connection(pipeline.target.connection)
    try:
        with open_ledger_at(database, timeout=_TIMEOUT) as session, transaction(session) as cursor:
            read_only(cursor)
            pipeline = with_columns(cursor, pipelines.registered_of(cursor, pipeline) or pipeline)
            changes = check_target(cursor, pipeline)
            if changes is None:
                return "missing", f"{table} does not exist yet; the first batch creates it"
            if changes:
                clauses = ", ".join(change.clause or change.statement for change in changes)
                return "to be changed", f"{table} fits after the next commit, which makes: {clauses}"
            extras = [f"the trigger {name}" for name in enabled_triggers(cursor, pipeline)]
            fails = pipeline.target.on_conflict is OnConflict.FAIL
            uniques = [each for each in own_uniques(cursor, pipeline) if fails or each.excludes]
            kinds = {True: "exclusion constraint", False: "unique index"}
            extras += [f"the {kinds[each.excludes]} {each.name}" for each in uniques]
            extras += [f"the foreign key {each.name}" for each in own_references(cursor, pipeline) if fails]
            note = f", and has {', '.join(extras)}: a row that these change or refuse stops a commit" if extras else ""
            return "fits", f"{table} fits{note}"
    except DatabaseUnavailable as error:
        return "not compared", f"{table} was not compared with the file: {error}"


def check_topic(pipeline: Pipeline) -> tuple[str, str]:
    """Return whether the topic is there (or not asked, where the brokers are unavailable), and a line about it.

    Raises:
        UnknownTopic: the cluster has no topic of the file.
        ConfigurationError: the connection is wrong.
        AccessDenied: the brokers refuse the login, or a right is missing.
    """
    source = pipeline.source
    try:
        with connect_kafka(get_connection(source.connection), timeout=_TIMEOUT) as kafka:
            if not source.several:
                kafka.describe(source.topic)
                return "there", f"topic {source.topic} is there"
            there = [topic for topic in kafka.topics() if source.reads(topic)]
    except BrokerUnavailable as error:
        return "not asked", f"Kafka was not asked about {source.topic_names}: {error}"
    if not there:
        raise UnknownTopic(
            f"Kafka of connection {source.connection!r} has none of the topics of the file: {source.topic_names}; "
            "create one, or correct source.topics or source.topic_pattern"
        )
    missing = sorted({*source.topics} - {*there})
    note = f"; not there: {', '.join(missing)}" if missing else ""
    return "there", f"{source.topic_names}: {counted(len(there), 'topic')}{note}"


def known_schemas(pipeline: Pipeline, kept: Iterable[WriterSchema]) -> tuple[tuple[KnownSchema, ...], tuple[str, ...]]:
    """The schemas to compare with, and notes on those that are not there.

    Raises:
        RegistryUnavailable: the registry does not answer.
        UnusableSchema: one of them cannot be read.
    """
    source = pipeline.source
    if source.format is Format.JSON:
        return (), ("records in JSON without a registry have no schema: the file is compared with the table alone",)
    if source.schema is not None:
        schema = WriterSchema(0, subjects.LANGUAGES[source.format], source.schema.text)
        return tuple(_known(pipeline, source.schema.name, schema)), ()
    assert source.registry is not None
    of_values = [schema for schema in kept if subjects.is_value_schema(source, schema)]
    registry = connect_registry(get_connection(source.registry))
    known, notes = list[KnownSchema](), list[str]()
    for subject in _subjects(pipeline, registry, of_values):
        latest = registry.latest(subject)
        if latest is None:
            notes.append(f"the registry has no subject {subject}")
        else:
            known += _known(pipeline, _name(subject, latest), latest)
        version = _version(subject, latest)
        if latest is None or version:  # else the registry does not say which of the kept ones are newer
            for each in of_values:
                if _version(subject, each) > version:
                    known += _known(pipeline, f"{_name(subject, each)}, kept", each)
    if not known and not notes and pipeline.record.schemas:
        notes.append(f"no known schema has records of {' or '.join(pipeline.record.schemas)} (record.where.schema)")
    elif not known and not notes:
        notes.append(f"no subject is known by source.subject: {source.subject}, because no record was read yet")
    return tuple(known), tuple(notes)


def _subjects(pipeline: Pipeline, registry: Registry, kept: list[WriterSchema]) -> list[str]:
    source = pipeline.source
    if source.subject is SubjectStrategy.TOPIC:
        return [f"{source.topic}-value"]
    if source.subject is SubjectStrategy.ANY:
        return sorted({subject for schema in kept for subject, _ in schema.subjects})
    names = {name for schema in kept for name in subjects.record_names(schema)}
    if wanted := set(pipeline.record.schemas) if source.format is not Format.JSON_SCHEMA else set():
        return sorted(wanted if source.subject is SubjectStrategy.RECORD else {f"{source.topic}-{n}" for n in wanted})
    if source.subject is SubjectStrategy.RECORD:
        return sorted(names)
    own = {f"{source.topic}-value", f"{source.topic}-key"}
    listed = {each for each in registry.subjects() if each.startswith(f"{source.topic}-")} - own
    return sorted(listed | {f"{source.topic}-{name}" for name in names})


def _version(subject: str, schema: WriterSchema | None) -> int:
    versions = [version for name, version in schema.subjects if name == subject] if schema else []
    return max(versions, default=0)


def _name(subject: str, schema: WriterSchema) -> str:
    version = _version(subject, schema)
    return f"{subject} version {version}" if version else f"{subject} schema id {schema.schema_id}"


def _known(pipeline: Pipeline, name: str, schema: WriterSchema) -> list[KnownSchema]:
    """The schema, once for each kind of records that the pipeline takes of it."""
    try:
        subjects.check_value_schema(pipeline.source, schema)
        if subjects.is_of_others(schema, pipeline.record.schemas):
            return []
        wanted, kinds = pipeline.record.schemas, [pipeline.source.message]
        if wanted or schema.language is SchemaLanguage.AVRO:
            kinds = [each for each in subjects.kind_names(schema) if not wanted or each in wanted]
        shown = [f"{name} ({kind})" if len(kinds) > 1 else name for kind in kinds]
        return [KnownSchema(each, subjects.fields_of(schema, kind)) for each, kind in zip(shown, kinds, strict=True)]
    except SchemaProblem as problem:
        raise UnusableSchema(f"{name}: {problem}; register another version, or correct the pipeline file") from None
