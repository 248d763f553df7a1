"""Whether dead letters can be delivered at all, known before anything is read."""

from __future__ import annotations

from offset_ledger.config.model import Pipeline
from offset_ledger.errors import ConfigurationError, UnknownTopic
from offset_ledger.kafka.client import KafkaClient
from offset_ledger.model.snapshot import TopicSnapshot


def check_dead_letter_topic(kafka: KafkaClient, pipeline: Pipeline) -> None:
    """Check that the dead letter topic of the pipeline file, if it names one, exists.

    Raises:
        ConfigurationError: it does not.
    """
    if pipeline.quality.dead_letter_topic:
        dead_letter_snapshot(kafka, pipeline, pipeline.quality.dead_letter_topic)


def dead_letter_snapshot(kafka: KafkaClient, pipeline: Pipeline, topic: str) -> TopicSnapshot:
    """The dead letter topic as it is now.

    Raises:
        ConfigurationError: it does not exist.
    """
    try:
        return kafka.snapshot(topic)
    except UnknownTopic:
        raise ConfigurationError(
            f"pipeline {pipeline.name}: the dead letter topic {topic!r} does not exist; create it, or correct "
            "quality.dead_letter_topic in the pipeline file"
        ) from None
