"""Who takes part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

OURS = ("ours by Spark Connect", "ours by a new session", "ours by one process")
LIMIT = "raw pieces"


@dataclass(frozen=True, slots=True)
class Contender:
    """One program. ``makes_table``: it makes the table itself, with ``extra`` columns that hold these values before."""

    name: str
    title: str
    module: str
    variant: str = ""
    environment: Literal["project", "peers"] = "peers"
    makes_table: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


_BOOKKEEPING = {"_partition": "0", "_offset": "0", "_timestamp": "publish_at", "_deleted": "false", "_batch_id": "0"}

CONTENDERS = (
    Contender(OURS[0], "this project, Spark Connect server", "run_ours", "server", "project", True, _BOOKKEEPING),
    Contender(OURS[1], "this project, new Spark session", "run_ours", "session", "project", True, _BOOKKEEPING),
    Contender(OURS[2], "this project, one process", "run_ours", "process", "project", True, _BOOKKEEPING),
    Contender("confluent-kafka", "by hand: confluent-kafka, batched upserts", "run_by_hand", "confluent-kafka"),
    Contender("kafka-python", "by hand: kafka-python, batched upserts", "run_by_hand", "kafka-python"),
    Contender("spark-jdbc", "Spark, JDBC to a staging table, merge", "run_spark", "batch"),
    Contender("spark-streaming", "Structured Streaming, availableNow, foreachBatch", "run_spark", "streaming"),
    Contender(
        "dlt", "dlt, merge by primary key", "run_dlt", "", "peers", True,
        {"_dlt_load_id": "'before'", "_dlt_id": "md5(event_id)"},
    ),
    Contender("debezium", "Debezium JDBC sink on Kafka Connect", "run_debezium", "", "project"),
    Contender("faucet", "faucet-stream, upsert", "run_faucet", "", "project"),
    Contender(LIMIT, "raw pieces: read, COPY, merge", "run_raw", "", "project"),
)  # fmt: skip
