"""``offset-ledger``: the verbs of the pipeline, and of the kit."""

from collections.abc import Collection, Sequence

from offset_ledger.interfaces.cli import main as pipeline
from offset_ledger.interfaces.cli.audit import run_audit
from offset_ledger.interfaces.cli.verbs import Family, Parser
from offset_ledger_kit.cli import demo, labs, publish, stack, topics

_KAFKA = {"publish": publish.run_publish, "topic": topics.run_topic, "audit": run_audit, "lab": labs.run_lab}
GROUPS: pipeline.Groups = {
    **pipeline.GROUPS,
    "set up": (stack.run_stack, *pipeline.GROUPS["set up"]),
    "other": (
        Family("kafka", "publish records, plan and audit topics, measure guarantees", _KAFKA),
        *pipeline.GROUPS["other"],
        demo.run_demo,
    ),
}


def build_parser(given: Collection[str] | None = None) -> Parser:
    """Return the parser of all verbs, or with the words ``given`` of those verbs alone."""
    return pipeline.build_parser(given, GROUPS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0, or that of the error."""
    return pipeline.main(argv, GROUPS)
