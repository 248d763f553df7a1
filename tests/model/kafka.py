"""What happens in Kafka: producers, transactions, compaction, retention, elections, people who recreate topics."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Rules, Step
from tests.model.state import ABORTED, DELETE, GONE, MARKER, OPEN, THERE, Log, Record, State


def logs_of(state: State) -> Iterator[tuple[int, int, Log]]:
    """Every partition of the topics that exist."""
    for t, topic in enumerate(state.topics):
        if topic.id:
            yield from ((t, p, log) for p, log in enumerate(topic.logs))


def produce(rules: Rules, state: State) -> Iterator[Step]:
    """A producer sends the next record of a partition; one of the script's OPEN records begins a transaction."""
    for t, p, log in logs_of(state):
        if log.later:
            record = log.later[0]._replace(topic_id=state.topics[t].id, era=log.era)
            after = log._replace(records=(*log.records, record), later=log.later[1:])
            yield Step("produce", (t, p, record.what), state.with_log(t, p, after))


def end_transaction(rules: Rules, state: State) -> Iterator[Step]:
    """The open transaction of a partition commits or aborts, and leaves a control record."""
    for t, p, log in logs_of(state):
        if log.stable < len(log.records):
            for name, fate in (("commit transaction", THERE), ("abort transaction", ABORTED)):
                ended = (each._replace(fate=fate) if each.fate == OPEN else each for each in log.records)
                records = (*ended, Record(MARKER, era=log.era))
                yield Step(name, (t, p), state.with_log(t, p, log._replace(records=records)))


def compact(rules: Rules, state: State) -> Iterator[Step]:
    """The broker cleans a partition: earlier records of a key go, and tombstones a period after the first cleaning."""
    if rules.may(state, "compact"):
        for t, p, log in logs_of(state):
            if (after := _cleaned(log, state.time)) != log:
                yield Step("compact", (t, p), rules.spend(state, "compact").with_log(t, p, after))


def _cleaned(log: Log, now: int) -> Log:
    records = list(log.records)
    newer: set[int] = set()
    for offset in range(log.stable - 1, -1, -1):
        each = records[offset]
        if each.fate == THERE and each.what != MARKER:
            expired = each.what == DELETE and 0 <= each.cleaned < now
            if each.key in newer or expired:
                records[offset] = each._replace(fate=GONE)
            elif each.what == DELETE and each.cleaned < 0:
                records[offset] = each._replace(cleaned=now)
            newer.add(each.key)
    return log._replace(records=tuple(records))


def tick(rules: Rules, state: State) -> Iterator[Step]:
    """``delete.retention.ms`` passes."""
    if rules.may(state, "tick"):
        yield Step("tick", (), rules.spend(state, "tick")._replace(time=state.time + 1))


def expire(rules: Rules, state: State) -> Iterator[Step]:
    """Retention deletes the first record of a partition."""
    if rules.may(state, "expire"):
        for t, p, log in logs_of(state):
            if log.start < log.stable:
                gone = log.records[log.start]._replace(fate=GONE)
                records = (*log.records[: log.start], gone, *log.records[log.start + 1 :])
                after = log._replace(records=records, start=log.start + 1)
                yield Step("expire", (t, p), rules.spend(state, "expire").with_log(t, p, after))


def truncate(rules: Rules, state: State) -> Iterator[Step]:
    """An unclean election cuts off the end of a log; the new leader has another epoch."""
    if rules.may(state, "truncate"):
        for t, p, log in logs_of(state):
            for end in range(log.start, len(log.records)):
                after = log._replace(records=log.records[:end], cuts=(*log.cuts, end))
                yield Step("truncate", (t, p, end), rules.spend(state, "truncate").with_log(t, p, after))


def recreate(rules: Rules, state: State) -> Iterator[Step]:
    """Somebody deletes a topic and creates it again."""
    if rules.may(state, "recreate"):
        for t, topic in enumerate(state.topics):
            if topic.id:
                logs = tuple(Log(later=log.later) for log in topic.logs)
                topics = (*state.topics[:t], topic._replace(id=topic.id + 1, logs=logs), *state.topics[t + 1 :])
                yield Step("recreate", (t,), rules.spend(state, "recreate")._replace(topics=topics))


def add_partition(rules: Rules, state: State) -> Iterator[Step]:
    """A topic gets another partition."""
    for t, topic in enumerate(state.topics):
        if topic.id and topic.added:
            records = tuple(each._replace(topic_id=topic.id) for each in topic.added[0].records)
            log = topic.added[0]._replace(records=records)
            after = topic._replace(logs=(*topic.logs, log), added=topic.added[1:])
            yield Step("add partition", (t,), state._replace(topics=(*state.topics[:t], after, *state.topics[t + 1 :])))


def add_topic(rules: Rules, state: State) -> Iterator[Step]:
    """A topic that the pipeline file reads too is created."""
    for t, topic in enumerate(state.topics):
        if not topic.id:
            after = topic._replace(id=1)
            yield Step("add topic", (t,), state._replace(topics=(*state.topics[:t], after, *state.topics[t + 1 :])))
