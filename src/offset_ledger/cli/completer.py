"""What a shell is answered when it asks for completions."""

from __future__ import annotations

from argparse import Action, ArgumentParser


def complete(parser: ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser)


def complete_pipelines(action: Action) -> None:
    """Complete this argument with the names of pipelines, and with files."""
    action.completer = _pipelines  # type: ignore[attr-defined]


def _pipelines(prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from offset_ledger.config.parse import SUFFIXES, known_names, parse_named

    name, at, _topic = prefix.rpartition("@")
    if at:
        return [f"{name}@{topic}" for topic in parse_named(name).source.topics]
    return [*known_names(), *FilesCompleter([suffix.removeprefix(".") for suffix in SUFFIXES])(prefix)]
