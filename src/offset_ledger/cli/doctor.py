"""``doctor``: whether everything that pipelines need is there, and what to do where it is not."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING

from offset_ledger.cli.verbs import Outcome, Verbs, add_pipeline, pipeline_of
from offset_ledger.units import counted

if TYPE_CHECKING:
    from offset_ledger.operations.doctor.finding import Finding


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "check what pipelines need: packages, servers, versions, rights, clocks, tables and topics"
    verb = verbs.add("doctor", summary, run, example="offset-ledger doctor\n  offset-ledger doctor flights")
    add_pipeline(verb, "only what this pipeline needs: ", nargs="?")


def run(arguments: Namespace) -> Outcome:
    """Run every check; exit code 1 if one found a problem."""
    from offset_ledger.operations.doctor.run import examine_all, examine_pipelines

    findings = list(examine_pipelines([pipeline_of(arguments)]) if arguments.pipeline else examine_all())
    levels = Counter(str(finding.level) for finding in findings)
    counts = ", ".join(
        counted(count, level) if level in _COUNTABLE else f"{count} {level}" for level, count in sorted(levels.items())
    )
    text = "\n".join([*map(_text, findings), "", counts])
    return Outcome([_entry(finding) for finding in findings], text, 1 if levels["problem"] else 0)


_COUNTABLE = {"problem", "warning"}


def _text(finding: Finding) -> str:
    line = f"{finding.level:8} {finding.subject}: {finding.text}"
    return f"{line}\n{'':8} to do: {finding.remedy}" if finding.remedy else line


def _entry(finding: Finding) -> dict[str, str | None]:
    return {"subject": finding.subject, "level": finding.level, "found": finding.text, "remedy": finding.remedy}
