"""A batch as the ledger has it, who runs its steps, and the engine that stages it. Pure."""

import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from offset_ledger.base.units import counted
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.model.states import BatchKind, State
from offset_ledger.pipeline_file.pipeline import StageEngine


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the ledger has it.

    ``epochs`` are the leader epochs under which the ends of its ranges were stable, by partition. ``engine`` staged it
    for ``engine_reason``; both are None until it is claimed. With ``fill`` the rows whose state is one of its records
    are written again. One that is ahead waits for the open head batch ``after``.
    """

    batch_id: int
    pipeline: str
    kind: BatchKind
    state: State
    epoch: int
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    slices_expected: int | None
    gap_reason: str | None
    rows: int | None
    refused: int | None
    skipped: int | None
    verdict: Mapping[str, Any] | None
    planned_at: datetime
    validated_at: datetime | None
    dag_id: str | None = None
    run_id: str | None = None
    config_hash: str = ""
    late: Mapping[str, Any] | None = None
    epochs: Mapping[int, int] = field(default_factory=dict)
    engine: str | None = None
    engine_reason: str | None = None
    fill: bool = False
    after: int | None = None

    @property
    def attempt(self) -> "Attempt":
        """The attempt that has claimed it."""
        return Attempt(self.batch_id, self.epoch)

    @property
    def reasons(self) -> str:
        """The gate's reasons for the rejection, in one line; empty if there was none."""
        return "; ".join((self.verdict or {}).get("reasons", []))

    @property
    def approved(self) -> bool:
        """Return whether it was approved although the gate had rejected it; it commits exactly what was validated."""
        return self.state is State.VALIDATED and not (self.verdict or {}).get("success", True)

    @property
    def late_approved(self) -> bool:
        """Return whether it was approved to go on with what was staged although tombstones may be missing from it."""
        return self.late is not None and self.state in (State.STAGED, State.VALIDATED)

    @property
    def judged(self) -> bool:
        """Return whether it needs approval, or has it: it needs no offset of the topic any more."""
        return self.state is State.REJECTED or self.approved or self.late_approved

    def __str__(self) -> str:
        ahead = f", after batch {self.after}" if self.after else ""
        return f"batch {self.batch_id} of {self.pipeline} ({self.kind}, {self.state}, epoch {self.epoch}{ahead})"


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a step, kept with the batch and with each of its events."""

    who: str
    dag_id: str | None = None
    run_id: str | None = None
    try_number: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A batch as one claim has it: each claim raises the epoch, and only the attempt of the highest may go on."""

    batch_id: int
    epoch: int

    def __str__(self) -> str:
        return f"batch {self.batch_id} epoch {self.epoch}"


def current_origin() -> Origin:
    """Return the origin by the environment: the Airflow task, or the person at the command line."""
    dag_id, run_id = os.environ.get("AIRFLOW_CTX_DAG_ID"), os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    if not dag_id:
        if person := os.environ.get("USER") or os.environ.get("LOGNAME"):
            return Origin(person)
        try:  # no variable names a person in a container or from cron
            login = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:  # a container may run as a user that it does not know
            login = f"uid {os.getuid()}"
        return Origin(f"{login}@{socket.gethostname()}")
    tried = os.environ.get("AIRFLOW_CTX_TRY_NUMBER")
    task = os.environ.get("AIRFLOW_CTX_TASK_ID", "")
    return Origin(f"airflow:{dag_id}.{task}", dag_id, run_id, int(tried) if tried else None)


@dataclass(frozen=True, slots=True)
class Profile:
    """The look of a batch when it was judged.

    ``records`` are all that Kafka gave, ``rows`` those judged, ``nulls`` the NULLs among them in each nullable column;
    ``newest`` is the latest record timestamp.
    """

    records: int
    rows: int
    nulls: Mapping[str, int]
    newest: datetime | None
    min_publish_at: datetime | None = None
    max_publish_at: datetime | None = None


class Engine(StrEnum):
    """The process that reads the slices of a batch and copies them into staging; both run the same code for a slice."""

    SPARK = "spark"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """An engine, and why it was chosen, as a person reads it."""

    engine: Engine
    reason: str

    def __str__(self) -> str:
        return f"by {'Spark' if self.engine is Engine.SPARK else 'this process'} ({self.reason})"


FROM_QUARANTINE = EngineChoice(Engine.PROCESS, "a redrive reads quarantine, not Kafka")


def choose(asked: StageEngine, offsets: int, can: bool, below: int) -> EngineChoice:
    """Return the engine for a batch of ``offsets``, given what the pipeline file asks for.

    ``can``: whether Spark is installed. Where the file asks for Spark, it is chosen even if not, so that its absence is
    an error and not a surprise. ``below``: a batch of fewer offsets is not worth a Spark job.
    """
    if asked is not StageEngine.AUTO:
        return EngineChoice(Engine(asked.value), f"stage.engine: {asked}")
    size, limit = counted(offsets, "offset"), f"stage.process_below: {below:,}"
    if offsets < below:
        return EngineChoice(Engine.PROCESS, f"{size}, fewer than {limit}")
    if not can:
        return EngineChoice(Engine.PROCESS, "Spark is not installed: pip install 'offset-ledger[spark]'")
    return EngineChoice(Engine.SPARK, f"{size}, at least {limit}")
