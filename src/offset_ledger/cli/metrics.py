"""``metrics``: what Prometheus scrapes."""

from __future__ import annotations

import threading
from argparse import ArgumentTypeError, Namespace
from pathlib import Path

from offset_ledger.cli.verbs import Outcome, Verbs, say

_DEFAULT = "127.0.0.1:9464"


def add_verb(verbs: Verbs) -> None:
    """Add it to the command line."""
    summary = "export the metrics of all pipelines to Prometheus, until it is stopped"
    verb = verbs.add("metrics", summary, run, example="offset-ledger metrics --listen 0.0.0.0:9464")
    how = verb.add_mutually_exclusive_group()
    how.add_argument(
        "--listen", type=_address, default=_address(_DEFAULT), metavar="HOST:PORT", help=f"where ({_DEFAULT})"
    )
    how.add_argument("--once", action="store_true", help="print what a scrape would get, and end")


def run(arguments: Namespace) -> Outcome:
    """Answer scrapes, or print one."""
    from offset_ledger.exporter.serve import exposition, parsed, serve
    from offset_ledger.page.pipelines import pipelines_folder

    folder = pipelines_folder(Path("dags"))
    if arguments.once:
        text = exposition(folder)
        return Outcome(parsed(text), text.rstrip())
    host, port = serve(folder, *arguments.listen)
    say(f"metrics of the pipelines in {folder}: http://{_bracketed(host)}:{port}/metrics")
    threading.Event().wait()
    raise AssertionError("nothing sets the event")


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ArgumentTypeError(f"should be HOST:PORT, such as {_DEFAULT}, found {text!r}")
    return host.strip("[]"), int(port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
