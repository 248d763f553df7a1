"""Completions for shells that ask for them."""

from argparse import Namespace
from collections.abc import Callable

from offset_ledger.outside.connections import get_connection

_MOST = 100  # batches


def complete_pipelines(prefix: str, **_: object) -> list[str]:
    """Return the names of pipelines, and files; after an @ the topics of a pipeline with several."""
    from argcomplete.completers import FilesCompleter

    from offset_ledger.pipeline_file.folder import SUFFIXES
    from offset_ledger.pipeline_file.parse import known_names, parse_named

    name, at, _topic = prefix.rpartition("@")
    if not at:
        return [*known_names(), *FilesCompleter([suffix.removeprefix(".") for suffix in SUFFIXES])(prefix)]

    def ask() -> list[str]:
        from offset_ledger.steps.plan.topics import known_pipelines

        pipeline = parse_named(name)
        return [f"{name}@{each.source.topic}" for each in known_pipelines(pipeline)] if pipeline.source.several else []

    return _answered(ask)


def complete_topics(parsed_args: Namespace, **_: object) -> list[str]:
    """Return the topics of the cluster that ``--connection`` names."""
    from offset_ledger.outside.kafka.client import connect_kafka

    def ask() -> list[str]:
        with connect_kafka(get_connection(parsed_args.connection)) as kafka:
            return list(kafka.topics())

    return _answered(ask)


def complete_batches(parsed_args: Namespace, **_: object) -> list[str]:
    """Return the open batches of the ledger that ``--connection`` names."""
    from offset_ledger.postgres.ledger.batches import all_open
    from offset_ledger.postgres.ledger.database import connect, transaction

    def ask() -> list[str]:
        with connect(get_connection(parsed_args.connection)) as session, transaction(session) as cursor:
            return [str(batch_id) for batch_id in all_open(cursor, _MOST)]

    return _answered(ask)


def _answered(ask: Callable[[], list[str]]) -> list[str]:
    """Return what servers answer at once; nothing if they do not, for completion cannot show errors."""
    from offset_ledger.base.retry import retrying_for
    from offset_ledger.errors import OffsetLedgerError

    try:
        with retrying_for(0):
            return ask()
    except OffsetLedgerError:
        return []
