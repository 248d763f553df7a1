"""A committed batch as OpenLineage's facets; imported only where its provider is installed and switched on."""

from dataclasses import asdict, replace
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)
from openlineage.client.generated.base import RunFacet

from offset_ledger.interfaces.airflow.assets import kafka_namespace, postgres_namespace
from offset_ledger.outside.connections import get_connection
from offset_ledger.pipeline_file.json_path import format_path
from offset_ledger.pipeline_file.pipeline import JsonPath, Pipeline, RecordShape
from offset_ledger.postgres.ledger.database import open_ledger, transaction
from offset_ledger.postgres.ledger.followed_columns import with_columns
from offset_ledger.postgres.ledger.staging import catalog_type
from offset_ledger.postgres.table.fit import target_columns
from offset_ledger.steps.commit.step import Committed
from offset_ledger.steps.validate.suite import SuiteAction

BATCH_FACET = "offsetLedger_batch"
BATCH_SCHEMA = "urn:offset-ledger:openlineage:1-0-0:OffsetLedgerBatchRunFacet"


@attr.define
class BatchRunFacet(RunFacet):
    """The batch with the balance sheet of each of its ranges; docs/openlineage has its schema."""

    pipeline: str
    batchId: int  # noqa: N815 - as OpenLineage writes names
    kind: str
    ranges: list[dict[str, Any]]
    total: dict[str, int]

    @staticmethod
    def _get_schema() -> str:
        return BATCH_SCHEMA


def lineage_of(pipeline: Pipeline, committed: Committed) -> OperatorLineage[Any, Any]:
    """Return the lineage from topic to table, with the counts and the verdict of this batch."""
    cluster, record = kafka_namespace(get_connection(pipeline.source.connection)), pipeline.record
    batch, total = committed.batch, committed.total
    if pipeline.has_more_columns:  # only the ledger knows their columns
        with open_ledger(pipeline) as session, transaction(session) as cursor:
            record = with_columns(cursor, pipeline, batch.batch_id).record
    ranges = [
        {
            "partition": each.partition,
            "fromOffset": each.from_offset,
            "untilOffset": each.until_offset,
            "balanceSheet": asdict(committed.sheet[each.partition]),
        }
        for each in batch.ranges
    ]
    facet = BatchRunFacet(batch.pipeline, batch.batch_id, batch.kind.value, ranges, asdict(total))
    return OperatorLineage(
        inputs=[_topic(cluster, pipeline, committed)],
        outputs=[_table(cluster, pipeline, record, total.inserted + total.updated + total.deleted)],
        run_facets={BATCH_FACET: facet},
    )


def _topic(cluster: str, pipeline: Pipeline, committed: Committed) -> InputDataset:
    """The topic with the number of records read and each expectation of the suite; a facet has room for one column."""
    total = committed.total
    assertions = [
        data_quality_assertions_dataset.Assertion(
            assertion=finding["type"],
            success=finding["success"],
            column=finding["columns"][0] if len(finding["columns"]) == 1 else None,
            severity="error" if finding["action"] == SuiteAction.REJECT else "warn",
            description=finding["text"],
        )
        for finding in (committed.batch.verdict or {}).get("findings", ())
    ]
    facets: dict[str, Any] = {
        "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=total.total - total.gap
        )
    }
    if assertions:
        judged = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=assertions)
        facets["dataQualityAssertions"] = judged
    return InputDataset(cluster, pipeline.source.topic, inputFacets=facets)


def _table(cluster: str, pipeline: Pipeline, record: RecordShape, written: int) -> OutputDataset:
    """The table with its columns, and from which path of a record's value each of them comes."""
    connection, target = get_connection(pipeline.target.connection), pipeline.target
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name, catalog_type(kind))
        for name, kind in target_columns(replace(pipeline, record=record))
    ]
    paths: dict[str, JsonPath | None] = {column.name: column.path for column in record.all_columns}
    if moment := target.name_of("publish_at"):
        paths[moment] = record.publish_at
    sources = {
        name: column_lineage_dataset.InputField(cluster, pipeline.source.topic, format_path(path))
        for name, path in paths.items()
        if path
    }
    return OutputDataset(
        postgres_namespace(connection),
        f"{connection.schema}.{target.schema}.{target.table}",
        facets={
            "schema": schema_dataset.SchemaDatasetFacet(fields=columns),
            "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(
                fields={name: column_lineage_dataset.Fields(inputFields=[each]) for name, each in sources.items()}
            ),
        },
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=written)
        },
    )
