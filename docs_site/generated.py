"""Pages that are made from the code: the command line, the Python API, and the files that other pages link."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import offset_ledger
from offset_ledger_kit.cli.main import build_parser

_LANGUAGES = {".py": "python", ".sql": "sql", ".yaml": "yaml", ".yml": "yaml", ".js": "javascript", ".json": "json"}
_NO_SEARCH = "---\nsearch:\n  exclude: true\n---\n"


def command_line() -> str:
    """A page with the help of every verb."""
    parser = build_parser()
    parts = ["# The command line", "Every verb, as `offset-ledger VERB --help` shows it."]
    for name, _, verb in sorted(verbs(parser), key=lambda each: each[0]):
        parts += [f"## {name}", f"```text\n{plain_help(verb)}\n```"]
    return "\n\n".join(parts) + "\n"


def verb_list() -> str:
    """Every verb in the order of ``offset-ledger --help`` with its line there, as docs/command-line.md shows it."""
    return "\n".join([*(f"- `{name}`: {about}" for name, about, _ in verbs(build_parser())), ""])


def verbs(parser: argparse.ArgumentParser, before: str = "") -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """The verbs of a parser, and of its families, with their help, and without their old names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed in action._choices_actions:
                name, made = f"{before}{listed.dest}", action.choices[listed.dest]
                yield from list(verbs(made, f"{name} ")) or [(name, listed.help or "", made)]


def plain_help(verb: argparse.ArgumentParser) -> str:
    """The help of a verb in 100 columns, without colours."""
    verb.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=100)
    return verb.format_help().rstrip()


def python_api() -> str:
    """A page with the signature and docstring of every public name."""
    intro = cleandoc(
        """
        # Reference of the Python API

        Signatures and docstrings of the names that `from offset_ledger import …` gives; [The Python API](../api.md)
        says what they are for.
        """
    )
    names = [(module, name) for module, of in offset_ledger._MODULES.items() for name in of if name != "__version__"]
    kinds = {"DAGs": "offset_ledger.interfaces.airflow", "Errors": "offset_ledger.errors", "Pipelines": ""}
    parts = [intro]
    for title in ("Pipelines", "DAGs", "Errors"):
        own = [each for each in names if next(t for t, at in kinds.items() if each[0].startswith(at)) == title]
        parts += [f"## {title}", *(f"::: {module}.{name}" for module, name in own)]
    return "\n\n".join(parts) + "\n"


def source(path: str, root: Path) -> str:
    """A page that shows a file, or every file of a folder."""
    at = root / path
    files = [at] if at.is_file() else sorted(each for each in at.rglob("*") if each.is_file() and not hidden(each))
    return _NO_SEARCH + "\n\n".join([f"# {path}", *shown(files, at, root)]) + "\n"


def shown(files: Iterable[Path], at: Path, root: Path) -> Iterator[str]:
    """The text of each file, under its path where there are several."""
    for file in files:
        if file != at:
            yield f"## {file.relative_to(root)}"
        yield f"````{_LANGUAGES.get(file.suffix, 'text')}\n{file.read_text().rstrip()}\n````"


def hidden(path: Path) -> bool:
    """Whether it is no source file: bytecode, and what begins with a dot."""
    return any(part == "__pycache__" or part.startswith(".") for part in path.parts[1:])
