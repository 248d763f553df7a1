"""Propose a pipeline file for a topic, and write it with its suite."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from offset_ledger.decoding.inferred import column_name
from offset_ledger.decoding.outcome import SchemaProblem
from offset_ledger.decoding.schemas import Lookup
from offset_ledger.decoding.subjects import LANGUAGES, is_value_schema
from offset_ledger.errors import ConfigurationError, UnusableSchema
from offset_ledger.model.writer_schema import SchemaRef, WriterSchema
from offset_ledger.operations.init.changes import (
    by_connect_names,
    changes_of,
    key_members,
    members_by_schema,
    rows_by_schema,
    rows_of,
)
from offset_ledger.operations.init.propose import Proposal, Wanted, propose
from offset_ledger.outside.connections import get_connection
from offset_ledger.outside.schema_registry.client import Registry, connect_registry, schema_or_problem
from offset_ledger.pipeline_file.folder import SUFFIXES
from offset_ledger.pipeline_file.json_path import format_path, parse_path
from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.names import check_identifier, split_table
from offset_ledger.pipeline_file.parse import FOLDER, parse_pipeline
from offset_ledger.pipeline_file.source import Envelope, Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.postgres.ledger.database import connect, transaction
from offset_ledger.postgres.table.existing import read_existing
from offset_ledger.postgres.table.infer import (
    Sample,
    framed_sample,
    json_inferred,
    read_sample,
    sampled_ids,
    sampled_kinds,
    schema_inferred,
)

PRINTED = "-"


@dataclass(frozen=True, slots=True)
class Initialized:
    """The proposal, the files that were written, and the pipeline's name."""

    name: str
    records: int
    proposal: Proposal
    written: tuple[Path, ...]


def initialize(
    topic: str,
    connection: str,
    registry: str | None,
    records: int,
    name: str | None = None,
    table: str | None = None,
    output: str | None = None,
    force: bool = False,
    event_id: str | None = None,
) -> Initialized:
    """Write a pipeline file for the topic, and a suite under expectations/; nothing, where ``output`` is ``-``.

    Without a name the pipeline is named like the file, or like the last part of the topic. A ``table`` that exists
    says what columns there are, of what types, and by what key it knows its rows.

    Raises:
        ConfigurationError: a file is there and not ``force``, or the topic has nothing to infer columns from.
        UnknownTopic: the cluster has no such topic.
    """
    named = Path(output).stem if output and output != PRINTED else topic.rpartition(".")[2] or topic
    name = name or column_name((named,))
    try:
        event_id = format_path(parse_path(event_id)) if event_id and event_id != "key" else event_id
        check_identifier(name, "pipeline name")
        split_table(table or name)
    except Refused as refused:
        raise ConfigurationError(str(refused)) from None
    path = None if output == PRINTED else Path(output or FOLDER / f"{name}.yaml")
    suite = _suite_path(path, name) if path else None
    if not force and (there := [str(each) for each in (path, suite) if each and each.exists()]):
        raise ConfigurationError(f"{' and '.join(there)} would be overwritten; name another --output, or add --force")
    sample = read_sample(get_connection(connection), topic, records)
    existing = None
    if table:
        with connect(get_connection("postgres_default")) as session, transaction(session) as cursor:
            existing = read_existing(cursor, *split_table(table))
    wanted = Wanted(name, table or f"public.{name}", suite is not None, event_id, existing)
    source = Source(connection, topic, registry=registry)
    if source.registry is None:
        changes = changes_of(sample) or rows_of(sample)
        if changes:
            source, sample = changes.source(source), changes.sample
        columns = changes.columns if changes else json_inferred(sample)
        proposal = propose(wanted, source, sample, columns, members=key_members(sample, source.envelope is not None))
    else:
        answering = connect_registry(get_connection(source.registry))
        sample = framed_sample(sample, answering)
        schemas = read_schemas(source, sample, answering)
        kinds = sampled_kinds(sample, schemas.values)
        columns, unreadable = schema_inferred(schemas.source, kinds, schemas.values)
        unusable = [f"{problem}; its records are quarantined" for problem in schemas.unusable.values()]
        doubts = *kinds.doubts, *unusable, *unreadable
        source, members = schemas.source, members_by_schema(schemas.keys)
        columns = by_connect_names(columns, schemas.values)
        if rows := rows_by_schema(columns):
            source, columns = replace(source, envelope=Envelope.DEBEZIUM), rows
        proposal = propose(wanted, source, kinds.sample, columns, schemas.lookup, kinds.taken, doubts, members)
    check_proposal(proposal)
    written = _write(proposal, path, suite) if path and suite else ()
    return Initialized(name, len(sample.records), proposal, written)


def check_proposal(proposal: Proposal) -> None:
    """Check that the text, read as a pipeline file, is what was proposed.

    Raises:
        PipelineFileError: the parser does not take it.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "proposed.yaml"
        path.write_text(proposal.text, encoding="utf-8")
        pipeline = parse_pipeline(path)
    if (pipeline.source, pipeline.record) != (proposal.source, proposal.record):
        raise AssertionError("expected the proposed file to say what was proposed")


def _suite_path(path: Path, name: str) -> Path:
    """Return where the pipeline file's suite is looked for first: in a folder expectations above it."""
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(f"a pipeline file ends in {' or '.join(SUFFIXES)}, {path} does not; name another")
    here, folders = Path.cwd(), path.resolve().parents
    new = here if here in folders else folders[0]
    suite = next((each for each in folders if (each / "expectations").is_dir()), new) / "expectations" / f"{name}.json"
    return suite.relative_to(here) if suite.is_relative_to(here) else suite


def _write(proposal: Proposal, path: Path, suite: Path) -> tuple[Path, ...]:
    """Write the suite before the file that names it."""
    texts = {suite: json.dumps(proposal.suite, indent=2) + "\n"} if proposal.suite else {}
    texts[path] = proposal.text
    try:
        for each, text in texts.items():
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{error.filename} cannot be written: {error.strerror}; name another") from None
    return tuple(reversed(texts))


_FORMATS = {language: Format(name) for name, language in LANGUAGES.items()}


@dataclass(frozen=True, slots=True)
class SampledSchemas:
    """A source with a registry, and the schemas of its records; ``keys`` are those that the keys name.

    ``unusable`` are the schemas of values that the registry has, and nobody can read.
    """

    source: Source
    values: tuple[WriterSchema, ...]
    keys: tuple[WriterSchema, ...] = ()
    unusable: Mapping[SchemaRef, SchemaProblem] = field(default_factory=dict)

    @property
    def lookup(self) -> Lookup:
        """Return these schemas by id."""
        known: dict[SchemaRef, WriterSchema | SchemaProblem] = {**self.unusable}
        known |= {schema.schema_id: schema for schema in (*self.values, *self.keys)}
        return lambda ids: {id_: known[id_] for id_ in ids if id_ in known}


def read_schemas(source: Source, sample: Sample, registry: Registry) -> SampledSchemas:
    """Return the schemas that the records name; the latest of the topic's subject if there are no records.

    Raises:
        ConfigurationError: the records name none, or the registry has none of them.
        UnusableSchema: nobody can read any of them.
        RegistryUnavailable: the registry does not answer.
    """
    topic, named = source.topic, sampled_ids(sample.values)
    answers = {id_: schema_or_problem(registry, id_) for id_ in named}
    schemas = [each for each in answers.values() if isinstance(each, WriterSchema)]
    unusable: dict[SchemaRef, SchemaProblem] = {
        id_: each for id_, each in answers.items() if isinstance(each, SchemaProblem)
    }
    if not sample.values and (latest := registry.latest(f"{topic}-value")):
        schemas = [latest]
    if unusable and not schemas:
        raise UnusableSchema(f"topic {topic}: {next(iter(unusable.values()))}")
    if not schemas:
        wrong = f"no sampled record of {topic} names a schema as Confluent's wire format does; drop --registry"
        if named:
            some = ", ".join(map(str, named[:5]))
            unknown = f"none of the schemas that {topic} names ({some})"
            wrong = f"the registry {source.registry} knows {unknown}; name another"
        elif not sample.values:
            wrong = f"topic {topic} has no records, and the registry no subject {topic}-value; publish first"
        raise ConfigurationError(wrong)
    language = Counter(schema.language for schema in schemas).most_common(1)[0][0]
    values = tuple(schema for schema in schemas if schema.language is language)
    source = replace(source, format=_FORMATS[language])
    ids = sampled_ids(record.key for record in sample.records if record.key is not None)
    keys = tuple(schema for id_ in ids if (schema := registry.schema(id_)))
    if keys:
        source = replace(source, key_format=KeyFormat(_FORMATS[keys[0].language]))
    return SampledSchemas(replace(source, subject=subject_of(source, values)), values, keys, unusable)


def subject_of(source: Source, schemas: Iterable[WriterSchema]) -> SubjectStrategy:
    """The first strategy that all the schemas are registered by."""
    for strategy in (SubjectStrategy.TOPIC, SubjectStrategy.RECORD, SubjectStrategy.TOPIC_RECORD):
        if all(is_value_schema(replace(source, subject=strategy), schema) for schema in schemas):
            return strategy
    return SubjectStrategy.ANY
