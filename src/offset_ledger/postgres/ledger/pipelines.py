"""A pipeline in the ledger: its topics, its positions in their logs, and facts about the logs below."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg2 import errors as pg
from psycopg2 import sql
from psycopg2.extras import execute_values

from offset_ledger.errors import ConfigurationError, TransientError
from offset_ledger.model.batch import Origin
from offset_ledger.model.snapshot import Boundary, Cursors, TopicSnapshot, topic_of
from offset_ledger.pipeline_file.parse import known_names
from offset_ledger.pipeline_file.pipeline import ROWS_SCHEMA, Pipeline
from offset_ledger.postgres.ledger.database import SESSION_NAME, Cursor, Session, open_ledger, transaction


def lock_pipeline(cursor: Cursor, pipeline: str) -> None:
    """Lock the pipeline: nobody else plans or commits for it until the transaction ends."""
    cursor.execute("SELECT FROM offset_ledger.pipeline WHERE pipeline = %s FOR UPDATE", [pipeline])


def lock_file(cursor: Cursor, file: str) -> list[str]:
    """Lock every pipeline of the file that the ledger knows, and return their names."""
    query = "SELECT pipeline FROM offset_ledger.pipeline WHERE file = %s ORDER BY pipeline FOR UPDATE"
    return [row["pipeline"] for row in cursor.execute(query, [file])]


def lock_table(cursor: Cursor, pipeline: Pipeline) -> None:
    """Lock the table: no other pipeline of the same file commits into it until the transaction ends."""
    query = "SELECT FROM offset_ledger.target_table WHERE target = %s FOR UPDATE"
    cursor.execute(query, [pipeline.target.name])


def lock_planning(session: Session, pipeline: str, seconds: int) -> None:
    """Lock planning: nobody else plans for this pipeline while the transaction that this begins is open.

    If the lock is not free within these seconds, the caller goes on without it.
    """
    session.begin()
    try:
        session.ask("SELECT set_config('lock_timeout', %s, true)", [f"{seconds}s"])
        session.ask("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"{SESSION_NAME} plan {pipeline}"])
    except pg.LockNotAvailable:
        session.end("ROLLBACK")


def register(cursor: Cursor, pipeline: Pipeline, snapshot: TopicSnapshot) -> None:
    """Enter the pipeline with the identity of its topic, once; lock it for the rest of the transaction.

    Raises:
        ConfigurationError: another pipeline already fills this table.
        TransientError: the pipeline was renamed or forgotten while this waited for it.
    """
    target = take_table(cursor, pipeline)
    topic = {"cluster_id": snapshot.cluster_id, "topic": snapshot.topic, "topic_id": snapshot.topic_id}
    entry = {**topic, "pipeline": pipeline.name, "target": target, "config_hash": pipeline.config_hash}
    try:
        cursor.run("pipelines/register", **entry)
    except pg.ForeignKeyViolation as error:  # the table is no longer that of this file
        raise TransientError(
            f"pipeline {pipeline.file} was renamed or forgotten while this run waited to plan; nothing was planned; "
            "run the file with its new name"
        ) from error


def is_registered(cursor: Cursor, pipeline: str) -> bool:
    """Return whether the ledger knows the pipeline."""
    return bool(cursor.execute("SELECT FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline]).rowcount)


def registered_of(cursor: Cursor, pipeline: Pipeline) -> Pipeline | None:
    """Return the pipeline as the ledger knows it, for what concerns the table: of several topics any known one."""
    if not pipeline.source.several:
        return pipeline if is_registered(cursor, pipeline.name) else None
    cursor.execute("SELECT topic FROM offset_ledger.pipeline WHERE file = %s ORDER BY pipeline", [pipeline.file])
    row = cursor.fetchone()
    return pipeline.of_topic(row["topic"]) if row else None


def check_owner(cursor: Cursor, pipeline: Pipeline) -> str:
    """Check that no pipeline of another file fills the target table; returns its name as the ledger has it.

    A pipeline that has committed nothing and has no open batch fills nothing.

    Raises:
        ConfigurationError: another one does, or has a batch that is about to.
    """
    target = pipeline.target.name
    owner = cursor.run("pipelines/table_owner", target=target, file=pipeline.file).fetchone()
    if owner is None:
        return target
    taken = f"pipeline {pipeline.name}: table {target} is filled by pipeline {owner['pipeline']}"
    file, folder = owner["pipeline"].partition("@")[0], pipeline.path.parent
    if owner["committed"] and file not in known_names(folder):
        raise ConfigurationError(
            f"{taken}; one table takes one pipeline file, and {folder} has no file of {file}: to continue it as this "
            f"one, run offset-ledger rename {file} {pipeline.file} --why ...; to give it up, run offset-ledger forget "
            f"{file} --why ...; or name another table"
        )
    if owner["committed"]:
        raise ConfigurationError(
            f"{taken}; one table takes one pipeline file, because only one file orders its rows; name another table, "
            "or read both topics with one file (source.topics)"
        )
    if owner["open_batch"]:
        raise ConfigurationError(
            f"{taken}, which has committed nothing yet but has an open batch; end that with "
            f"offset-ledger batch abandon {owner['open_batch']} --why ..., or name another table"
        )
    return target


def take_table(cursor: Cursor, pipeline: Pipeline) -> str:
    """Take the table over from a file that has committed nothing into it; else as :func:`check_owner`."""
    target = check_owner(cursor, pipeline)
    ours = {"target": target, "file": pipeline.file}
    cursor.execute("SELECT FROM offset_ledger.target_table WHERE (target, file) = (%(target)s, %(file)s)", ours)
    if cursor.rowcount == 0:
        if cursor.run("pipelines/lock_others", **ours).rowcount:
            check_owner(cursor, pipeline)  # again: they may have planned or committed before they were locked
        cursor.run("pipelines/take_table", **ours)
    return target


def registered_files(cursor: Cursor) -> list[str]:
    """The names of the pipeline files that the ledger knows, without those that were forgotten."""
    query = "SELECT DISTINCT file FROM offset_ledger.pipeline WHERE file !~ '~' ORDER BY file"
    return [row["file"] for row in cursor.execute(query)]


def waiting_records(cursor: Cursor, names: Sequence[str]) -> int:
    """Return how many records of these pipelines wait in quarantine."""
    return int(cursor.run("renaming/waiting", names=names).one()["records"])


def rename(cursor: Cursor, names: Sequence[str], file: str, new: str | None, origin: Origin, why: str) -> str:
    """Give these pipelines, all of the file, its new name, with their history; returns the name that they have now.

    Without a new name they are forgotten: they keep no table, and have a name that no file can have.
    """
    by = {"former": file, "name": new, "who": origin.who, "why": why}
    renaming_id = cursor.run("renaming/record", **by).one()["renaming_id"]
    now = new or f"{file}~{renaming_id}"
    cursor.run("renaming/rename", old=file, new=now, cut=len(file) + 1, names=[*names, file])
    kept, table = sql.Identifier(ROWS_SCHEMA, file), sql.Identifier(ROWS_SCHEMA, now)
    if new is None:
        cursor.run("renaming/release_table", file=now)
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(kept))
    elif has_bookkeeping(cursor, file):
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))  # that of an earlier ledger
        cursor.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(kept, sql.Identifier(now)))
    return now


def has_bookkeeping(cursor: Cursor, file: str) -> bool:
    """Return whether the rows of the file have their bookkeeping in a table beside their own."""
    return bool(cursor.run("table/has_bookkeeping", file=file).one()[0])


def read_cursors(cursor: Cursor, pipeline: str) -> Cursors | None:
    """The next offset of each partition of the pipeline, with the topic it belongs to; None before its first plan."""
    cursor.execute("SELECT cluster_id, topic_id FROM offset_ledger.pipeline WHERE pipeline = %s", [pipeline])
    topic = cursor.fetchone()
    if topic is None:
        return None
    partitions = cursor.run("pipelines/cursors", pipeline=pipeline, topic_id=topic["topic_id"]).fetchall()
    epochs = {p["partition"]: p["leader_epoch"] for p in partitions if p["leader_epoch"] is not None}
    offsets = {p["partition"]: p["next_offset"] for p in partitions}
    topic_id, truncations = topic_of(topic["topic_id"])
    return Cursors(topic["cluster_id"], topic_id, offsets, epochs, truncations)


def lock_cursors(cursor: Cursor, pipeline: str, log_id: str) -> dict[int, int]:
    """The next offset of each partition that has committed one, locked for the rest of the transaction."""
    locked = cursor.run("pipelines/lock_cursors", pipeline=pipeline, topic_id=log_id)
    return {row["partition"]: row["next_offset"] for row in locked}


def change_topic(cursor: Cursor, pipeline: str, log_id: str, cluster_id: str) -> None:
    """Make the pipeline read another log from now on."""
    cursor.run("pipelines/change_topic", pipeline=pipeline, topic_id=log_id, cluster_id=cluster_id)


def read_start_offsets(cursor: Cursor, pipeline: str, log_id: str) -> dict[int, int]:
    """The start offset of each partition of the log for the pipeline."""
    query = "SELECT partition, start_offset FROM offset_ledger.beginning WHERE pipeline = %s AND topic_id = %s"
    return {row["partition"]: row["start_offset"] for row in cursor.execute(query, [pipeline, log_id])}


def record_start_offsets(cursor: Cursor, pipeline: str, log_id: str, starts: Iterable[Boundary]) -> None:
    """Record where partitions of the log begin; the first committed range of each must start there."""
    # By the first plan, even if there is nothing to read. If a first batch with `start: latest` failed, the next plan
    # would begin at a later end of the log, and what arrived in between would be lost.
    query = "INSERT INTO offset_ledger.beginning (pipeline, topic_id, partition, start_offset, leader_epoch) VALUES %s"
    values = [(pipeline, log_id, start.partition, start.offset, start.leader_epoch) for start in starts]
    execute_values(cursor, query, values)


def has_snapshot_since(cursor: Cursor, pipeline: str, age: timedelta) -> bool:
    """Return whether a snapshot was recorded in the last ``age``."""
    query = "SELECT FROM offset_ledger.topic_look WHERE pipeline = %s AND seen_at > clock_timestamp() - %s"
    return bool(cursor.execute(query, [pipeline, age]).rowcount)


def record_snapshot(
    cursor: Cursor,
    pipeline: str,
    log_id: str,
    seen_at: datetime,
    snapshot: TopicSnapshot,
    next_offsets: Mapping[int, int],
) -> None:
    """Record how far the log was stable at ``seen_at``, and delete the snapshots that this makes needless."""
    stable = {p.partition: p.last_stable for p in snapshot.partitions}
    partitions = range(max(stable, default=-1) + 1)
    log = {"pipeline": pipeline, "topic_id": log_id}
    retention = snapshot.delete_retention_ms if snapshot.compacted else None
    stables = {"last_stables": [stable.get(p, 0) for p in partitions], "delete_retention_ms": retention}
    cursor.run("pipelines/insert_snapshot", **log, **stables, seen_at=seen_at)
    passed = [next_offsets.get(p, 0) for p in partitions]
    cursor.run("pipelines/delete_snapshots", **log, next_offsets=passed)


def read_boundaries(cursor: Cursor, pipeline: str, partitions: Sequence[int]) -> tuple[Boundary, ...]:
    """Return the offsets of these partitions up to which the ledger knows the present log: start, committed ends."""
    known = cursor.run("pipelines/boundaries", pipeline=pipeline, partitions=list(partitions))
    return tuple(Boundary(*row) for row in known)


@dataclass(frozen=True, slots=True)
class Retirement:
    """The decision about a deleted topic; it says nothing while the cluster has a topic of that name."""

    topic: str
    since: datetime
    who: str
    why: str

    def __str__(self) -> str:
        return f"topic {self.topic} is gone; retired since {self.since:%Y-%m-%d %H:%M} UTC by {self.who}: {self.why}"


def retirements(cursor: Cursor, pipelines: Sequence[str]) -> dict[str, Retirement]:
    """Return the decisions in force for these pipelines, by pipeline."""
    return {row["pipeline"]: Retirement(*row[1:]) for row in cursor.run("topics/retired", pipelines=list(pipelines))}


def read_retirement(pipeline: Pipeline) -> Retirement | None:
    """Return the decision in force for this pipeline, if there is one; raises DatabaseUnavailable."""
    with open_ledger(pipeline) as session, transaction(session) as cursor:
        return retirements(cursor, [pipeline.name]).get(pipeline.name)


def record_topics(cursor: Cursor, pipeline: Pipeline, topics: Iterable[str]) -> None:
    """Keep which topics the file reads; those that come after its first ones are later ones."""
    cursor.run("topics/record", file=pipeline.file, topics=list(topics))


def read_topics(cursor: Cursor, pipeline: Pipeline) -> tuple[str, ...]:
    """The topics that were recorded of the file, by name."""
    cursor.execute("SELECT topic FROM offset_ledger.subscribed_topic WHERE file = %s ORDER BY topic", [pipeline.file])
    return tuple(row["topic"] for row in cursor.fetchall())


def matched_later(cursor: Cursor, pipeline: Pipeline) -> bool:
    """Return whether the topic of this pipeline began to match the pattern of its file after others had been read."""
    return bool(cursor.run("topics/matched_later", file=pipeline.file, topic=pipeline.source.topic).one()[0])
