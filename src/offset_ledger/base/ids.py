"""The ids that Airflow and Kafka know: DAGs, their tasks, and the consumer group of a pipeline."""

AUDIT_DAG = "audit_topics"
DAILY_REPORT_DAG = "daily_quality_report"
_INGEST, _REDRIVE = "ingest_", "redrive_"

TOPICS, TOPIC = "topics", "topic"  # of a pipeline file with several: the task that finds them, the group of each
PLAN, APPROVE_LOSS, STAGE = "plan", "approve_loss", "stage"
VALIDATE, APPROVE_BATCH, COMMIT, REPORT = "validate", "approve_batch", "commit", "report"
DEAD_LETTERS = "dead_letters"
STAGE_AHEAD = "stage_ahead"

GROUPS = "offset-ledger."
"""The beginning of the names of consumer groups that mirror cursors."""


def file_of(pipeline: str) -> str:
    """The name of the pipeline file: that of a pipeline without the topic, which it has in a file with several."""
    return pipeline.partition("@")[0]


def ingest_dag(pipeline: str) -> str:
    """The DAG whose readers may see the pipeline, and whose triggerers may replay, approve and abandon."""
    return f"{_INGEST}{file_of(pipeline)}"


def redrive_dag(pipeline: str) -> str:
    """The DAG whose triggerers may redrive."""
    return f"{_REDRIVE}{file_of(pipeline)}"


def may_be_ours(dag_id: str) -> bool:
    """Return whether a DAG of this id may be triggered from the ledger page; others may begin like these too."""
    return dag_id.startswith((_INGEST, _REDRIVE, AUDIT_DAG))


def audit_task(pipeline: str) -> str:
    """The task of one pipeline in the DAG that audits topics."""
    return f"audit_{pipeline}"


def consumer_group(pipeline: str) -> str:
    """The consumer group whose offsets mirror the cursors, for tools that show the lag of groups."""
    return f"{GROUPS}{file_of(pipeline)}"
