"""Completions for shells that ask for them."""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable

_MOST = 100  # batches


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser)


def complete_pipelines(action: Action) -> None:
    """Complete this argument with the names of pipelines, and with files."""
    action.completer = _pipelines  # type: ignore[attr-defined]


def complete_topics(action: Action) -> None:
    """Complete this argument with the topics of the cluster that ``--connection`` names."""
    action.completer = _topics  # type: ignore[attr-defined]


def complete_batches(action: Action) -> None:
    """Complete this argument with the open batches of the ledger that ``--connection`` names."""
    action.completer = _batches  # type: ignore[attr-defined]


def _pipelines(prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from offset_ledger.config.parse import SUFFIXES, known_names

    name, at, _topic = prefix.rpartition("@")
    if at:
        return _answered(lambda: _of_topics(name))
    return [*known_names(), *FilesCompleter([suffix.removeprefix(".") for suffix in SUFFIXES])(prefix)]


def _of_topics(name: str) -> list[str]:
    from offset_ledger.config.parse import parse_named
    from offset_ledger.plan.topics import known_pipelines

    pipeline = parse_named(name)
    return [f"{name}@{each.source.topic}" for each in known_pipelines(pipeline)] if pipeline.source.several else []


def _topics(parsed_args: Namespace, **_: object) -> list[str]:
    from offset_ledger.connections import get_connection
    from offset_ledger.kafka.client import connect_kafka

    def ask() -> list[str]:
        with connect_kafka(get_connection(parsed_args.connection)) as kafka:
            return list(kafka.topics())

    return _answered(ask)


def _batches(parsed_args: Namespace, **_: object) -> list[str]:
    from offset_ledger.connections import get_connection
    from offset_ledger.ledger.batches import all_open
    from offset_ledger.ledger.database import connect, transaction

    def ask() -> list[str]:
        with connect(get_connection(parsed_args.connection)) as session, transaction(session) as cursor:
            return [str(batch_id) for batch_id in all_open(cursor, _MOST)]

    return _answered(ask)


def _answered(ask: Callable[[], list[str]]) -> list[str]:
    """Return what servers answer at once; nothing where they do not, for a press of a key has no place for errors."""
    from offset_ledger.errors import OffsetLedgerError
    from offset_ledger.retry import retrying_for

    try:
        with retrying_for(0):
            return ask()
    except OffsetLedgerError:
        return []
