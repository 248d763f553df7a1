"""``completion``: a script that lets a shell complete verbs, options, pipelines, topics and batches."""

from __future__ import annotations

from argparse import Namespace

from offset_ledger.cli.verbs import Outcome, Verbs

_SHELLS = ("bash", "zsh", "fish")


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "print a script that lets your shell complete verbs, options and pipelines"
    verb = verbs.add("completion", summary, run, example='eval "$(offset-ledger completion bash)"  # in ~/.bashrc')
    verb.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=f"one of {', '.join(_SHELLS)}")


def run(arguments: Namespace) -> Outcome:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    script = shellcode([arguments.prog], shell=arguments.shell)
    return Outcome({"shell": arguments.shell, "script": script}, script)
