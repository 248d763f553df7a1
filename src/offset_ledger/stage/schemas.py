"""The schemas that records name: from the ledger, where they are kept, and from the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offset_ledger.config.model import Pipeline
from offset_ledger.config.source import Source
from offset_ledger.connections import Connection, get_connection
from offset_ledger.decoding.schema_problem import SchemaProblem
from offset_ledger.decoding.subjects import can_be_of
from offset_ledger.errors import SchemaChanged, UnusableSchema
from offset_ledger.ledger import writer_schemas
from offset_ledger.ledger.database import connect, transaction
from offset_ledger.model.states import BatchKind
from offset_ledger.model.writer_schema import WriterSchema

if TYPE_CHECKING:
    from offset_ledger.schema_registry.client import Registry


@dataclass(frozen=True, slots=True)
class SchemaLookup:
    """Finds the schemas of a pipeline's records; it is pickled into Spark's tasks.

    ``new_records``: only what the registry says counts, also of a schema that the ledger has, because an id that means
    something else by now would be read wrongly. Records that were read before are read as before.

    With ``keeps`` a new schema is kept in the ledger; without a ``database`` no schema is known before.
    """

    pipeline: str
    source: Source
    database: Connection | None
    registry: Connection
    new_records: bool
    keeps: bool = True

    @classmethod
    def of(cls, pipeline: Pipeline, kind: BatchKind) -> SchemaLookup | None:
        """The lookup for a batch of that kind; None where records name no schema."""
        source = pipeline.source
        if source.registry is None:
            return None
        database, registry = get_connection(pipeline.target.connection), get_connection(source.registry)
        return cls(pipeline.name, source, database, registry, kind is BatchKind.HEAD)

    @classmethod
    def that_keeps_nothing(cls, pipeline: Pipeline, database: Connection | None) -> SchemaLookup | None:
        """The lookup that finds what the next batch would find, and writes nothing; None where records name none."""
        source = pipeline.source
        if source.registry is None:
            return None
        return cls(pipeline.name, source, database, get_connection(source.registry), new_records=True, keeps=False)

    def __call__(self, schema_ids: frozenset[int]) -> Mapping[int, WriterSchema | SchemaProblem]:
        """The schemas with these ids, or what is wrong with one, without those that the registry does not know.

        Raises:
            SchemaChanged: the registry has another schema under an id than when it was first met.
            RegistryUnavailable: it has to be asked and does not answer.
            DatabaseUnavailable: nor does the ledger.
        """
        kept = self._kept(schema_ids)
        answers = self._ask(schema_ids if self.new_records else schema_ids - kept.keys())
        asked = {id_: answer for id_, answer in answers.items() if isinstance(answer, WriterSchema)}
        _check_unchanged(self.pipeline, kept, asked)
        new = [schema for id_, schema in asked.items() if id_ not in kept and can_be_of(self.source, schema)]
        if new and self.keeps and self.database:
            kept_now = self._freeze(self.database, new)  # a concurrent task may have kept it first
            _check_unchanged(self.pipeline, kept_now, asked)
        return answers if self.new_records else {**answers, **kept}

    def _kept(self, schema_ids: frozenset[int]) -> dict[int, WriterSchema]:
        if self.database is None:
            return {}
        with connect(self.database) as session, transaction(session) as cursor:
            return writer_schemas.read(cursor, self.pipeline, schema_ids)

    def _ask(self, schema_ids: frozenset[int]) -> dict[int, WriterSchema | SchemaProblem]:
        from offset_ledger.schema_registry.client import connect_registry

        if not schema_ids:
            return {}
        registry = connect_registry(self.registry)
        with registry.kept_open():
            schemas = {id_: schema_or_problem(registry, id_) for id_ in sorted(schema_ids)}
        return {id_: schema for id_, schema in schemas.items() if schema is not None}

    def _freeze(self, database: Connection, schemas: list[WriterSchema]) -> dict[int, WriterSchema]:
        with connect(database) as session, transaction(session) as cursor:
            for schema in schemas:
                writer_schemas.freeze(cursor, self.pipeline, schema)
            return writer_schemas.read(cursor, self.pipeline, [schema.schema_id for schema in schemas])


def schema_or_problem(registry: Registry, schema_id: int) -> WriterSchema | SchemaProblem | None:
    """The schema with this id, or why nobody can read it; None where the registry does not know it."""
    try:
        return registry.schema(schema_id)
    except UnusableSchema as error:  # one record that names it does not stop the others
        return SchemaProblem(str(error))


def _check_unchanged(pipeline: str, kept: Mapping[int, WriterSchema], asked: Mapping[int, WriterSchema]) -> None:
    for schema_id in kept.keys() & asked.keys():
        before, now = kept[schema_id].fingerprint, asked[schema_id].fingerprint
        if before != now:
            raise SchemaChanged(
                f"pipeline {pipeline}: schema id {schema_id} has SHA-256 {now[:12]} in the registry and had "
                f"{before[:12]} when it was first met; nothing was committed; a registry never changes an id, so name "
                "the one that the records were written with in source.registry"
            )
