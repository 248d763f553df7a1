"""The section ``quality`` of a pipeline file: the gate that a batch passes before it is merged."""

from __future__ import annotations

from offset_ledger.config.document import Value
from offset_ledger.config.keys import Key, Kind, Section, section
from offset_ledger.config.located import Refused, is_text, quoted
from offset_ledger.config.model import Pipeline
from offset_ledger.config.names import COLUMN_PATTERN, SUITE_PATTERN
from offset_ledger.config.quality import History, NullBand, Quality, Unusual, VolumeBand
from offset_ledger.config.sections import TOPIC
from offset_ledger.config.values import FACTOR, SHARE, choice, different, matching, or_null, text, whole_number

SUITE = matching(SUITE_PATTERN, "a suite name", "write the name of a file in expectations/ without .json")
BATCHES = whole_number(1000)
DAYS = whole_number(3650)
COLUMN_NAMES = different(
    Kind(text, {"type": "string", "pattern": COLUMN_PATTERN}),
    expected="a list of columns",
    right="write [one, two], or leave it out",
    minItems=1,
)
ACTION = Key(choice(Unusual), "What a batch outside the band leads to.")


def check_quality(quality: Value, pipeline: Pipeline) -> None:
    """Note what contradicts the rest of the file: topics that are one, columns that are never NULL."""
    letters = pipeline.quality.dead_letter_topic
    if letters and pipeline.source.reads(letters) and (topic := quality.at("dead_letter_topic")):
        topic.note(Refused("the pipeline would read its own dead letters", "name another topic than source.topic"))
    if names := quality.at("history", "null_share", "columns"):
        nullable = [column.name for column in pipeline.record.columns if column.nullable]
        _check_nullable(names, nullable)


def _check_nullable(names: Value, nullable: list[str]) -> None:
    right = f"write one of {', '.join(nullable)}" if nullable else "leave null_share out"
    for name in {item.node.value: item for item in reversed(names.items()) if is_text(item.node)}.values():
        if name.node.value not in nullable:
            wrong = f"{quoted(name.node.value)} is not a nullable column of record.columns, so its share of NULL is"
            name.note(Refused(f"{wrong} always 0", right))


def _history(said: Section) -> History:
    if not said.entries.keys() & {"volume", "null_share"}:
        raise Refused("nothing is compared", "add volume or null_share, for example volume: {low: 0.2, high: 5}")
    history = said.make(History)
    if (fewest := history.min_batches) > history.batches:
        wrong = f"min_batches {fewest} is above batches {history.batches}, so nothing is ever judged"
        raise Refused(wrong, "raise batches")
    return history


VOLUME: Kind[VolumeBand] = section(
    VolumeBand,
    "How many times the usual records an hour a head batch may carry.",
    {
        "low": Key(SHARE, "Below this many times the usual it is out of the band."),
        "high": Key(FACTOR, "Above this many times the usual it is out of the band."),
        "action": ACTION,
    },
)

NULL_SHARE: Kind[NullBand] = section(
    NullBand,
    "How far the share of NULL in a column may lie from the usual one.",
    {
        "tolerance": Key(
            SHARE, "Highest distance from the usual share, in either direction; 0.1 is ten percentage points."
        ),
        "columns": Key(COLUMN_NAMES, "The columns to look at; every nullable one where absent.", (["tail_number"],)),
        "action": ACTION,
    },
)

HISTORY: Kind[History] = section(
    History,
    "Comparison of a head batch with the committed head batches before it.",
    {
        "volume": VOLUME,
        "null_share": NULL_SHARE,
        "batches": Key(BATCHES, "With how many batches at most."),
        "min_batches": Key(BATCHES, "With fewer than so many nothing is judged."),
    },
    make=_history,
    renamed={"least": "min_batches"},
    also={"anyOf": [{"required": ["volume"]}, {"required": ["null_share"]}]},
)

QUALITY: Kind[Quality] = section(
    Quality,
    "The gate that a batch passes before it is merged.",
    {
        "suite": Key(
            or_null(SUITE), "A Great Expectations suite, expectations/<suite>.json; null for none.", ("flights",)
        ),
        "max_quarantined_share": Key(SHARE, "The share of quarantined records above which the batch is rejected."),
        "keep_rejected_days": Key(DAYS, "Days for which a rejected batch keeps its staging."),
        "history": HISTORY,
        "dead_letter_topic": Key(
            or_null(TOPIC),
            "A topic that gets each quarantined record too, with coordinates and reasons in headers.",
            ("flights.dead",),
        ),
    },
)
