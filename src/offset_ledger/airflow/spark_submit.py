"""Airflow's operator for spark-submit; where its provider is not installed, one that refuses to submit anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from offset_ledger.extras import missing

_PROVIDER = "apache-airflow-providers-apache-spark"
_SUBMITTED = (
    *("application", "conf", "name", "deploy_mode", "yarn_queue", "driver_memory", "executor_memory"),
    *("executor_cores", "num_executors", "total_executor_cores", "durable"),
)


class NoSparkSubmit(BaseOperator):
    """Takes the arguments of the provider's operator; batches that need no Spark never come to ``execute``."""

    _hook = None

    def __init__(self, *, conn_id: str, **kwargs: Any) -> None:
        super().__init__(**{name: value for name, value in kwargs.items() if name not in _SUBMITTED})
        self._conn_id = conn_id

    def execute(self, context: Any) -> None:  # noqa: ARG002
        """Refuse.

        Raises:
            ConfigurationError: always.
        """
        raise missing("spark", "a batch that Spark reads", _PROVIDER)


if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator as SparkSubmitOperator
else:
    try:
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    except ModuleNotFoundError:
        SparkSubmitOperator = NoSparkSubmit
