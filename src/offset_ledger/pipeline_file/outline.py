"""The outline of a pipeline file for processes without the file: its topics and tables, as values of JSON.

Airflow keeps it in the arguments of a trigger. The triggerer has no DAG bundle, and each worker has its own checkout.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from offset_ledger.pipeline_file import pipeline as model
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.pipeline_file.source import Source


def outline(pipeline: Pipeline) -> dict[str, Any]:
    """The outline of a pipeline file."""
    source, target = pipeline.source, pipeline.target
    return {
        "pipeline": pipeline.name,
        "source": {
            "connection": source.connection,
            "topic": source.topic,
            "topics": list(source.topics),
            "topic_pattern": source.topic_pattern,
        },
        "tombstone": pipeline.record.tombstone.value,
        "target": {
            "connection": target.connection,
            "schema": target.schema,
            "table": target.table,
            "beside": target.beside,
        },
        "dead_letter_topic": pipeline.quality.dead_letter_topic,
        "notify": [asdict(entry) | {"causes": [cause.value for cause in entry.causes]} for entry in pipeline.notify],
    }


def from_outline(values: Mapping[str, Any]) -> Pipeline:
    """The pipeline of an outline: enough to ask ledger and topics about it, and not to decode a record."""
    source = Source(**values["source"] | {"topics": tuple(values["source"]["topics"])})
    tombstone = model.Tombstone(values["tombstone"])
    return Pipeline(
        name=values["pipeline"],
        source=source,
        record=model.RecordShape(None, None, (), tombstone=tombstone, topic_names=source.several),
        target=model.Target(**values["target"]),
        quality=model.Quality(dead_letter_topic=values["dead_letter_topic"]),
        limits=model.Limits(),
        path=Path(),
        config_hash="",
        notify=tuple(
            model.Notify(
                **entry
                | {"notifier": model.Notifier(**entry["notifier"]), "causes": tuple(map(model.Cause, entry["causes"]))}
            )
            for entry in values["notify"]
        ),
    )
