"""The schemas that sampled records name, as a registry has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from offset_ledger.config.source import Format, KeyFormat, Source, SubjectStrategy
from offset_ledger.connections import get_connection
from offset_ledger.decoding import frame
from offset_ledger.decoding.framed import Lookup
from offset_ledger.decoding.outcome import Mismatch
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.subjects import LANGUAGES, is_value_schema
from offset_ledger.errors import ConfigurationError, UnusableSchema
from offset_ledger.model.writer_schema import WriterSchema
from offset_ledger.operations.init.sample import Sample
from offset_ledger.schema_registry.client import connect_registry
from offset_ledger.stage.schemas import schema_or_problem

_FORMATS = {language: Format(name) for name, language in LANGUAGES.items()}


@dataclass(frozen=True, slots=True)
class SampledSchemas:
    """A source with a registry, and the schemas of its records; ``keys`` are those that the keys name.

    ``unusable`` are the schemas of values that the registry has, and nobody can read.
    """

    source: Source
    values: tuple[WriterSchema, ...]
    keys: tuple[WriterSchema, ...] = ()
    unusable: Mapping[int, SchemaProblem] = field(default_factory=dict)

    @property
    def lookup(self) -> Lookup:
        """Finds these schemas by id."""
        known: dict[int, WriterSchema | SchemaProblem] = dict(self.unusable)
        known |= {schema.schema_id: schema for schema in (*self.values, *self.keys)}
        return lambda ids: {id_: known[id_] for id_ in ids if id_ in known}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """A line for each of the unusable ones."""
        return tuple(f"{problem}; its records are quarantined" for problem in self.unusable.values())


def read_schemas(source: Source, sample: Sample) -> SampledSchemas:
    """The schemas that the records name; the latest of the topic's subject, where there are no records.

    Raises:
        ConfigurationError: the records name none, or the registry has none of them.
        UnusableSchema: nobody can read any of them.
        RegistryUnavailable: the registry does not answer.
    """
    assert source.registry
    registry = connect_registry(get_connection(source.registry))
    named = _ids(sample.values)
    answers = {id_: schema_or_problem(registry, id_) for id_ in named}
    schemas = [each for each in answers.values() if isinstance(each, WriterSchema)]
    unusable = {id_: each for id_, each in answers.items() if isinstance(each, SchemaProblem)}
    if not sample.values and (latest := registry.latest(f"{source.topic}-value")):
        schemas = [latest]
    if unusable and not schemas:
        raise UnusableSchema(f"topic {source.topic}: {next(iter(unusable.values()))}")
    if not schemas:
        raise ConfigurationError(_no_schema(source, sample, named))
    language = Counter(schema.language for schema in schemas).most_common(1)[0][0]
    values = tuple(schema for schema in schemas if schema.language is language)
    source = replace(source, format=_FORMATS[language])
    ids = _ids(record.key for record in sample.records if record.key is not None)
    keys = tuple(schema for id_ in ids if (schema := registry.schema(id_)))
    if keys:
        source = replace(source, key_format=KeyFormat(_FORMATS[keys[0].language]))
    return SampledSchemas(replace(source, subject=subject_of(source, values)), values, keys, unusable)


def _ids(framed: Iterable[bytes]) -> list[int]:
    """The schema ids of these values, ascending; none of a value that names none."""
    ids = set[int]()
    for each in framed:
        try:
            ids.add(frame.schema_id(each))
        except Mismatch:
            continue
    return sorted(ids)


def _no_schema(source: Source, sample: Sample, named: list[int]) -> str:
    if not sample.values:
        return f"topic {source.topic} has no records, and the registry no subject {source.topic}-value; publish first"
    if not named:
        return f"no sampled record of {source.topic} names a schema as Confluent's wire format does; drop --registry"
    ids = ", ".join(map(str, named[:5]))
    return f"the registry {source.registry} knows none of the schemas that {source.topic} names ({ids}); name another"


def subject_of(source: Source, schemas: Iterable[WriterSchema]) -> SubjectStrategy:
    """The first strategy that all the schemas are registered by."""
    for strategy in (SubjectStrategy.TOPIC, SubjectStrategy.RECORD, SubjectStrategy.TOPIC_RECORD):
        if all(is_value_schema(replace(source, subject=strategy), schema) for schema in schemas):
            return strategy
    return SubjectStrategy.ANY
