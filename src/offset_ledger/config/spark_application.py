"""On which cluster Spark stages a batch, and with what, as the pipeline file declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class DeployMode(StrEnum):
    """Where Spark's driver runs: on the machine of the task, or on one of the cluster's."""

    CLIENT = "client"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Resources:
    """What a Spark application asks of its cluster; None leaves it to Spark. Memory is written as Spark does: 512m."""

    driver_memory: str | None = None
    driver_cores: int | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    executors: int | None = None
    total_executor_cores: int | None = None


@dataclass(frozen=True, slots=True)
class Spark:
    """Where Spark stages a batch, and how; ``conf`` are Spark's own settings, as text."""

    connection: str = "spark_default"
    deploy_mode: DeployMode = DeployMode.CLIENT
    queue: str | None = None
    resources: Resources = Resources()
    conf: Mapping[str, str] = field(default_factory=dict)
