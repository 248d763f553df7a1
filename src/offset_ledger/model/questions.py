"""Questions that need a person's decision, and how they are shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from offset_ledger.model.ranges import OffsetRange

_PIPE = re.compile(r"(\\*)\|")


def code(text: str, limit: int = 2000) -> str:
    """The text as code in one cell of a table, cut to ``limit`` characters.

    Escapes would not do: Airflow's pages make links of addresses after they have read the escapes. In a table a
    backslash before a pipe is doubled where it would otherwise end the cell.
    """
    shown = visible(text, limit)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    escaped = _PIPE.sub(lambda pipe: pipe[1] + "\\" * (len(pipe[1]) % 2) + "\\|", shown)
    return f"{fence} {escaped} {fence}"


def visible(text: str, limit: int) -> str:
    """Return the text in one line, cut to ``limit`` characters; line ends and invisible characters are escaped."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


class QuestionKind(StrEnum):
    """The subject of a question."""

    LOST_RANGE = "lost_range"
    RECREATED_TOPIC = "recreated_topic"
    TRUNCATED_LOG = "truncated_log"
    TOPIC_GONE = "topic_gone"
    UNREAD_TOMBSTONES = "unread_tombstones"
    CHANGED_SCHEMA = "changed_schema"
    REJECTED_BATCH = "rejected_batch"


class QuestionAnswer(StrEnum):
    """An answer that a person may give; ``reject`` leaves everything as it is."""

    APPROVE = "approve"
    ABANDON = "abandon"
    REJECT = "reject"


MEANING = {
    QuestionKind.LOST_RANGE: "**Approve** skips exactly these offsets permanently, and the run continues.",
    QuestionKind.RECREATED_TOPIC: "**Approve** starts with the first offset of the new topic; rows and ledger of the "
    "old one remain, and its open batches are abandoned.",
    QuestionKind.TRUNCATED_LOG: "**Approve** continues from the last committed offset on which log and ledger agree. "
    "Records that are read again change nothing, rows of truncated records remain, and open batches that were planned "
    "before the truncation are abandoned.",
    QuestionKind.TOPIC_GONE: "**Approve** lets later runs leave the topic out; its rows, quarantine and ledger remain, "
    "and its open batches are abandoned unless they are completely staged. If a topic of this name is created again, a "
    "question asks about that one.",
    QuestionKind.UNREAD_TOMBSTONES: "**Approve** continues with what was staged: rows whose tombstone was removed "
    "unread remain in the table. First check for rows whose key has no record in the topic any more.",
    QuestionKind.CHANGED_SCHEMA: "**Approve** leaves these columns as they are: what does not fit them is quarantined, "
    "here and in later schemas with the same differences. Instead, correct the pipeline file or the producer.",
    QuestionKind.REJECTED_BATCH: "**Approve** commits exactly what was validated. **Abandon** gives the batch up. If "
    "it was to move the cursors, the next run plans its offsets again.",
}
SAFE = (
    "Not sure? **Reject** changes nothing: it fails this run, and you can decide later. No answer in time is a "
    "**Reject**."
)

_LABELS = {
    "cursors": "cursors, by partition",
    "committed": "committed offsets",
    "log": "new log, by partition",
    "log_ends": "log ends, by partition",
    "back": "read again",
    "abandons": "abandoned batch",
    "missing": "missing offsets, by partition",
    "waited": "records may have waited",
    "kept": "tombstones are kept for at least",
    "kind": "kind of batch",
    "refused": "refused records",
    "begins": "from these offsets on, by partition",
    "adds": "columns that are added",
}

_OF_RECORDS = ("reasons", "differences")  # with values and names that were observed in records


@dataclass(frozen=True, slots=True)
class Question:
    """A question that needs a person's decision, with the exact numbers in ``details``."""

    pipeline: str
    kind: QuestionKind
    topic_id: str
    text: str
    details: Mapping[str, Any]
    batch_id: int | None = None

    def subject(self) -> str:
        """The text as a line to be shown above the numbers."""
        return visible(self.text, 300)

    def body(self, page: str = "") -> str:
        """Return the numbers, and the effect of each answer, as Markdown to be shown below the text.

        ``page``: the address of the run's tab Ledger, which shows the batch.
        """
        details = {name: value for name, value in self.details.items() if value is not None}
        samples = details.pop("samples", ())
        cells = {name: _cell(name, value) for name, value in details.items()}
        shown = {name: cell for name, cell in cells.items() if name not in _OF_RECORDS or cell not in self.subject()}
        # Characters that would end a cell of a Markdown table, or begin emphasis, are shown as they are written.
        plain = {ord("|"): "\\|", ord("*"): "\\*", ord("\n"): " "}
        cells = {name: code(cell) if name in _OF_RECORDS else cell.translate(plain) for name, cell in shown.items()}
        lines = [f"| {_LABELS.get(name, name.replace('_', ' '))} | {cell} |" for name, cell in cells.items()]
        lines += [f"| refused (partition:offset) {places} | {code(reason, 200)} |" for places, reason in samples]
        if self.kind is QuestionKind.REJECTED_BATCH:
            tab = f"[tab Ledger]({page})" if page else "tab Ledger"
            lines += ["", f"Records and quality report: {tab} of the run."]
        return "\n".join(["| | |", "|---|---|", *lines, "", MEANING[self.kind], "", SAFE])


def _cell(name: str, value: Any) -> str:
    match value:
        case dict():
            shown = []
            for partition, item in value.items():
                match item:
                    case [int() as start, int() as end] if start < end:
                        shown.append(_wide(OffsetRange(int(partition), start, end)))
                    case [int(), int() as end]:
                        shown.append(f"partition {partition}, empty at {end}")
                    case _:
                        shown.append(f"{partition}: {item}")
            return "; ".join(shown)
        case [[int(), int(), int()], *_]:
            return "; ".join(_wide(OffsetRange(*parts)) for parts in value)
        case [before, now] if name.endswith("_id"):
            return str(now) if before == now else f"{before}, now {now}"
        case list():
            return ", ".join(map(str, value))
    return str(value)


def _wide(r: OffsetRange) -> str:
    return f"{r.in_words} ({r.width:,} {'offset' if r.width == 1 else 'offsets'})"
