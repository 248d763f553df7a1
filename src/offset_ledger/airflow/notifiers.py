"""One message through one of Airflow's notifiers, within a time limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import copy_context
from importlib import import_module
from threading import Thread
from typing import Any

from offset_ledger.config.model import Cause, Notifier, Pipeline
from offset_ledger.errors import error_line
from offset_ledger.extras import has_module
from offset_ledger.model.notices import texts

SECONDS = 15.0
_URL = re.compile(r"(?i)https?://\S+|\burl: \S+")  # what follows the host may be a secret, as in webhooks


def missing_notifiers(pipeline: Pipeline) -> Iterator[str]:
    """A line for each notifier whose provider is not installed; nothing is imported but its packages."""
    return (line for each in pipeline.notify if (line := _missing(pipeline, each.notifier.path)))


def wrong_notifiers(pipeline: Pipeline) -> Iterator[str]:
    """A line for each notifier that is missing or whose class cannot be used; the other modules are imported."""
    for path in (each.notifier.path for each in pipeline.notify):
        if line := _missing(pipeline, path):
            yield line
        elif why := _unusable(path):
            yield f"pipeline {pipeline.name}: notify names {path}, {why}; correct class in {pipeline.path}"


def _missing(pipeline: Pipeline, path: str) -> str | None:
    module = path.rpartition(".")[0]
    if has_module(module):
        return None
    return (
        f"pipeline {pipeline.name}: notify needs {path}, which is not installed; install {_provider(module)}, or "
        f"remove the entry from {pipeline.path}"
    )


def _unusable(path: str) -> str | None:
    """Why the class cannot be a notifier; None if it can."""
    from airflow.sdk import BaseNotifier

    try:
        made = _class(path)
    except AttributeError:
        return "which its module does not have"
    except Exception as error:  # noqa: BLE001 - whatever its module raises is the answer
        return f"whose module cannot be imported ({_without_urls(error)})"
    if isinstance(made, type) and issubclass(made, BaseNotifier):
        return None
    return "which is no notifier: it does not extend airflow.sdk.BaseNotifier"


def message(pipeline: str, cause: Cause, subject: str, body: str, link: str) -> Mapping[str, str]:
    """What a notifier's arguments may name."""
    return {"pipeline": pipeline, "cause": str(cause), **texts(subject, body, link)}


def send(notifier: Notifier, values: Mapping[str, str], seconds: float = SECONDS) -> str | None:
    """Send one message; None, or in one line why it was not sent. It takes ``seconds`` at most, once it is imported.

    A notifier that does not return is left behind in a thread that ends with the process.
    """
    if why := _unusable(notifier.path):
        return f"{notifier.path}, {why}"
    try:
        made = _class(notifier.path)(**notifier.arguments)
    except Exception as error:  # noqa: BLE001 - whatever its module raises, the run goes on
        return _without_urls(error)
    outcome: list[str | None] = []
    thread = Thread(target=copy_context().run, args=(_notify, made, values, outcome), daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else f"no answer within {seconds:.0f} s"


def _class(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _notify(made: Any, values: Mapping[str, str], outcome: list[str | None]) -> None:
    try:
        context: Any = dict(values)
        made.render_template_fields(context)
        made.notify(context)
        outcome.append(None)
    except Exception as error:  # noqa: BLE001 - whatever a notifier raises, the run goes on
        outcome.append(_without_urls(error))


def _without_urls(error: Exception) -> str:
    return _URL.sub("(a URL)", error_line(error))


def _provider(module: str) -> str:
    parts = module.split(".")
    if parts[:2] != ["airflow", "providers"] or len(parts) < 3:
        return "the package that has it"
    return f"apache-airflow-providers-{parts[2]}"
