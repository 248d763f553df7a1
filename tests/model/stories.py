"""A story in plain words: one line for each step, in the terms of the glossary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.model.explore import PROGRESS, Walk
from tests.model.rules import Step
from tests.model.state import State

OF_AN_ATTEMPT = {
    "claim": "claims batch {0} (epoch {1})",
    "stage slice": "stages slice {2}",
    "seal": "seals batch {0}: it is staged",
    "seal, but tombstones may be gone": "has staged batch {0}, but tombstones may be gone: a person is asked",
    "validate": "validates batch {0}",
    "reject": "validates batch {0}, and the gate rejects it",
    "commit": "commits batch {0}",
    "move cursor": "moves the cursors of batch {0}",
    "commit again": "takes batch {0} for not committed, and commits it again",
    "lose answer": "loses the answer to its COMMIT; batch {0} is {2}",
    "resolve": "asks the ledger about batch {0}, which is {2}",
    "end": "ends: {2}",
    "fail to classify": "has no room to classify batch {0}, which is not committed",
    "take up": "goes on with batch {0}",
    "load": "takes batch {0} from its claim (epoch {1}) through the gate",
    "ingest": "takes batch {0} (epoch {1}) through all its steps",
}
OTHERS = {
    "produce": "a {2} is produced to topic {0} partition {1}",
    "commit transaction": "the open transaction of topic {0} partition {1} commits",
    "abort transaction": "the open transaction of topic {0} partition {1} aborts",
    "compact": "compaction cleans topic {0} partition {1}",
    "tick": "delete.retention.ms passes",
    "expire": "retention deletes the first record of topic {0} partition {1}",
    "truncate": "an unclean election cuts topic {0} partition {1} off at offset {2}",
    "recreate": "topic {0} is deleted and created again",
    "add partition": "topic {0} gets another partition",
    "add topic": "topic {0} is created",
    "look": "a plan takes a snapshot of topic {0}",
    "plan": "a plan writes a head batch of topic {0}: {ranges}",
    "plan ahead": "a plan writes the batch after the open one of topic {0}: {ranges}",
    "run": "a run plans a head batch of topic {0} ({ranges}) and takes it through all its steps",
    "approve": "a person approves batch {0}",
    "approve tombstones": "a person lets batch {0} go on without the tombstones",
    "abandon": "a person abandons batch {0}",
    "skip": "a person skips what topic {0} has lost",
    "accept topic": "a person accepts the {1} log of topic {0}",
    "replay": "a person asks for a replay of topic {0} {1}:[{2}, {3})",
    "redrive": "a person asks for a redrive of topic {0}",
    "dismiss": "a person dismisses the quarantined record {1}:{2} of topic {0}",
    "undo dismissal": "a person undoes the dismissal of record {1}:{2} of topic {0}",
    "edit": "somebody edits the pipeline file, {0}: {1}",
    "remerge": "a person orders all rows by Kafka's timestamps, as the file of topic {0} says now",
    "replay part": "the remerge plans the replay of topic {0}",
    "prune": "somebody prunes the history of topic {0}",
    "prune deletes": "somebody prunes delete markers of topic {0}",
    "regroup": "somebody edits the pipeline file, groups of the columns: {0!r}",
    "fill": "a person asks for a replay of topic {0} {1}:[{2}, {3}) that fills columns",
    "delete by hand": "somebody deletes row {0} of the table",
    "lose comments": "the database is dumped and restored without comments",
    "kill": "the process of batch {0} epoch {1} dies; it {2}",
    "crash": "Postgres crashes: staging is empty, and of the manifest is lost: {0}",
    "replicate": "the standby has everything up to here; what follows may be lost",
    "failover": "the standby is promoted",
    "restore": "the database is restored from the backup",
    "read back": "a delivery reads the dead letter topic back, and takes what waits: {0}",
    "send": "the delivery publishes letters: {0}",
    "mark": "the delivery marks letters as delivered: {0}",
}


def lines_of(first: State, story: Sequence[Step]) -> Iterator[str]:
    """The lines of a story."""
    before, woken = first, set()
    for step in story:
        if step.name in OF_AN_ATTEMPT:
            number, epoch = step.parameters[:2]
            batch = before.db.batch(number)
            is_old = batch is not None and epoch < batch.epoch and (number, epoch) not in woken
            if is_old:
                woken.add((number, epoch))
            who = f"attempt {epoch}" + (", which was paused until now," if is_old else "")
            yield f"{who} {OF_AN_ATTEMPT[step.name].format(*step.parameters)}"
        else:
            ranges = ", ".join(
                f"{r[0]}:[{r[1]}, {r[2]})" for r in step.parameters if isinstance(r, tuple) and len(r) == 3
            )
            yield OTHERS[step.name].format(*step.parameters, ranges=ranges)
        before = step.state


def violation(walk: Walk) -> Iterator[str]:
    """The statement that does not hold, and the shortest story of it."""
    assert walk.violated is not None
    assert walk.first is not None
    yield f"{walk.violated.replace('_', ' ')}: no longer, after {len(walk.story)} steps of {walk.world.name!r}"
    yield from (f"  {number:2}. {line}" for number, line in enumerate(lines_of(walk.first, walk.story), start=1))
    if walk.violated == PROGRESS:
        yield "      from here nothing leads to a state in which every record has its end"
