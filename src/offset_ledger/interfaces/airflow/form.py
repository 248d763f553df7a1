"""The trigger form of the ingest DAG, and the data interval of a backfill, as one request."""

from dataclasses import replace
from typing import Any

from airflow.sdk import Context, Param

from offset_ledger.model.batch import Origin, current_origin
from offset_ledger.model.request import Request, RunAction, parse_request

WINDOW = "A time window (action window)"
RANGES = "Offset ranges (action ranges)"
DECISION = "A decision (actions approve, abandon, skip)"


def optional(kind: str, title: str, description: str, **more: Any) -> Param:
    """Return a field of a form that may be left empty."""
    return Param(None, type=["null", kind], title=title, description=description, **more)


TOPIC = {
    "topic": optional("string", "Topic", "Only this one; all, if empty. The actions ranges and skip are for one topic.")
}


def form(topics: bool = False) -> dict[str, Param]:
    """The Params of the ingest DAG, in the order of the form; of a pipeline file with several topics also the topic."""
    return {
        "action": Param(
            RunAction.NEXT.value,
            type="string",
            enum=[str(action) for action in RunAction],
            title="Action",
            description="next: read new records. window, ranges: read again; cursors do not move. approve, abandon: "
            "decide about a batch. skip: continue after offsets were lost, or the topic was "
            "replaced or deleted. "
            "A backfill reads its data interval: do not change this field.",
            values_display={
                "next": "next batch",
                "window": "time window, again",
                "ranges": "offset ranges, again",
                "approve": "approve a rejected batch",
                "abandon": "abandon an open batch",
                "skip": "skip what is lost",
            },
        ),
        **(TOPIC if topics else {}),
        "limit": optional(
            "integer", "Limit", "The maximum number of offsets, for the actions next, window and ranges.", minimum=1
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Show the ranges, their counts and how much of them was committed before; read nothing.",
        ),
        "since": optional("string", "Since", "First record timestamp.", format="date-time", section=WINDOW),
        "until": optional(
            "string", "Until", "End of the record timestamps, exclusive.", format="date-time", section=WINDOW
        ),
        "scan": Param(
            False,
            type="boolean",
            title="Full scan",
            description="Also read late records: those behind the first record after the window, as far as committed "
            "batches have seen them. Without it the log of plan lists what is left out.",
            section=WINDOW,
        ),
        "fill": Param(
            False,
            type="boolean",
            title="Fill",
            description="For the actions window and ranges: also write rows whose newest state is one of the records "
            "read, so that columns that were added to the pipeline file later get their values.",
        ),
        "ranges": optional(
            "string",
            "Ranges",
            "One partition:from-until on each line, such as 0:1000-2000; the end is exclusive.",
            format="multiline",
            section=RANGES,
        ),
        "batch_id": optional("integer", "Batch", "Its number in the ledger.", minimum=1, section=DECISION),
        "why": optional("string", "Why", "Recorded in the ledger; required for a decision.", section=DECISION),
    }


def request_of(context: Context) -> Request:
    """Return what the run was asked for: its form, or the data interval of a backfill run.

    Raises:
        ContradictoryRequest: the form contradicts itself.
    """
    run, params = context["dag_run"], context["params"]
    given = {**{name: params[name] for name in params}, **(run.conf or {})}
    interval = None
    if str(getattr(run.run_type, "value", run.run_type)) == "backfill":
        assert run.data_interval_start is not None
        assert run.data_interval_end is not None
        interval = (run.data_interval_start, run.data_interval_end)
    return parse_request(given, interval)


def by_person(context: Context) -> Origin:
    """Return the origin of the request: the user who triggered the run, else the task itself."""
    origin = current_origin()
    user = context["dag_run"].triggering_user_name
    return replace(origin, who=user or origin.who)
