"""``accept-schema``: the columns stay as they are although the next records have a schema that does not fit them."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Verbs, add_why, pipeline_of


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "leave the columns as they are although the next records have a schema that does not fit them"
    verb = verbs.add_for_pipeline(
        "accept-schema",
        summary,
        run,
        example='offset-ledger accept-schema flights --why "nobody needs the new field"',
    )
    add_why(verb, "decision")


def run(arguments: Namespace) -> Outcome:
    """Leave the columns as they are."""
    from offset_ledger.ledger.origin import current_origin
    from offset_ledger.operations.accept_schema import accept_schema

    pipeline = pipeline_of(arguments)
    accepted = [str(each) for each in accept_schema(pipeline, current_origin(), arguments.why)]
    return Outcome({"accepted": accepted}, f"{pipeline.name} goes on with its columns; accepted: {'; '.join(accepted)}")
