"""``notify``: a test message through every notifier of a pipeline file."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Topics, Verbs, pipeline_of
from offset_ledger.errors import ConfigurationError


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    about = "send a test message through every notifier of the pipeline file"
    verbs.add_for_pipeline("notify", about, run, Topics.TOGETHER, example="offset-ledger notify flights")


def run(arguments: Namespace) -> Outcome:
    """Send it; the ledger does not remember it.

    Raises:
        ConfigurationError: the file has no ``notify``, or a notifier failed.
    """
    from offset_ledger.airflow.notifiers import message, send
    from offset_ledger.model.notices import trial

    pipeline = pipeline_of(arguments)
    if not pipeline.notify:
        raise ConfigurationError(f"{pipeline.path} has no notify section; add one, see docs/notify.md")
    notice = trial(pipeline.name, "")
    values = message(pipeline.name, notice.cause, notice.subject, notice.body, notice.link)
    errors = {each.notifier.label: send(each.notifier, values) for each in pipeline.notify}
    failed = [f"{label}: {error}" for label, error in errors.items() if error]
    if failed:
        raise ConfigurationError(f"not sent by {'; '.join(failed)}; correct the connection or the entry")
    return Outcome({"pipeline": pipeline.name, "sent": list(errors)}, "\n".join(f"sent by {each}" for each in errors))
