"""Great Expectations itself: imported only when needed (it takes seconds), quietly, and with its analytics off."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from offset_ledger.base.extras import require
from offset_ledger.base.local_files import write_private
from offset_ledger.base.version import __version__
from offset_ledger.errors import one_line

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

_MAX_KEPT = 1000  # entries in the cache
# Map expectations by class, but on SQL they look at the declared column type and name no rows.
_TYPE_CHECKS = frozenset({"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"})


def load() -> ModuleType:
    """The package ``great_expectations``.

    Raises:
        ConfigurationError: it is not installed.
    """
    require("gx", "a suite")
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # It logs each function that its documentation leaves out: 170 lines.
    logging.getLogger("great_expectations._docs_decorators").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations
    return great_expectations


def known_types() -> list[str]:
    """Return every expectation type that is registered."""
    load()
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    return sorted(list_registered_expectation_implementations())


def build(configuration: dict[str, Any]) -> Expectation:
    """The expectation of one entry of a suite file.

    Raises:
        ValueError: Great Expectations refuses it; one line for each argument that is wrong.
    """
    load()
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.exceptions.exceptions import GreatExpectationsError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    try:
        return ExpectationConfiguration(**configuration).to_domain_obj()
    except ValidationError as error:
        first = {str(problem["loc"][0]): problem["msg"] for problem in reversed(error.errors())}
        lines = [text if name == "__root__" else f"{name}: {text}" for name, text in sorted(first.items())]
        raise ValueError("\n".join(lines)) from None
    except (GreatExpectationsError, TypeError) as error:
        raise ValueError(one_line(error, 1000)) from None


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a suite needs about an expectation; ``parameters`` are suite parameters without a value."""

    names_rows: bool
    runs_on_postgres: bool
    parameters: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Facts:
        """The facts about an entry of a suite file, as Great Expectations has them.

        Raises:
            ValueError: as :func:`build`.
        """
        expectation = build(dict(entry))
        from great_expectations.expectations import expectation as base

        kind, checks_types = type(expectation), expectation.expectation_type in _TYPE_CHECKS
        row_level = (base.ColumnMapExpectation, base.ColumnPairMapExpectation, base.MulticolumnMapExpectation)
        names_rows = isinstance(expectation, row_level) and not checks_types
        runs_on_postgres = checks_types or has_sql(kind)  # some are for pandas and Spark only
        return cls(names_rows, runs_on_postgres, tuple(expectation.suite_parameter_options))


class KeptFacts:
    """The facts about entries that this version of Great Expectations has accepted before, in the user's cache.

    Its import takes seconds, which a suite that was checked before does not need. The cache is a file of JSON, and
    nothing is lost with it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[str, list[Any]] = {}
        self._is_new = False
        with suppress(OSError, ValueError):
            self._kept = dict(json.loads(path.read_text(encoding="utf-8"))) if path else {}

    @classmethod
    def of_user(cls) -> KeptFacts:
        """The facts that this user's checks have kept."""
        with suppress(PackageNotFoundError, RuntimeError):  # importable without metadata; a user without a home
            folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offset-ledger"
            return cls(folder / f"expectations-{version('great-expectations')}-{__version__}.json")
        return cls(None)

    def is_known(self, name: str) -> bool:
        """Return whether there is an expectation type of that name."""
        return any(name == kept[0] for kept in self._kept.values()) or name in known_types()

    def facts_of(self, entry: Mapping[str, Any]) -> Facts:
        """Return the facts about an entry of a suite file, without the import where they are kept.

        Raises:
            ValueError: Great Expectations refuses it; one line for each argument that is wrong.
        """
        key = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
        if key not in self._kept:
            facts = Facts.of(entry)
            self._kept[key] = [entry["type"], facts.names_rows, facts.runs_on_postgres, facts.parameters]
            self._is_new = True
        _, row_level, in_postgres, parameters = self._kept[key]
        return Facts(row_level, in_postgres, tuple(parameters))

    def write(self) -> None:
        """Keep what is new, with the newest of what was kept; a cache that cannot be written is left alone."""
        if self._path is None or not self._is_new:
            return
        newest = dict(list(self._kept.items())[-_MAX_KEPT:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._path, json.dumps(newest))


def has_sql(kind: type[Expectation]) -> bool:
    """Return whether a row-level expectation has an implementation in SQL; all others have one."""
    from great_expectations.exceptions.exceptions import MetricProviderError
    from great_expectations.expectations.registry import get_sqlalchemy_metric_provider

    metric = getattr(kind, "map_metric", None)
    if metric is None:
        return True
    try:
        get_sqlalchemy_metric_provider(f"{metric}.condition")
    except MetricProviderError:
        return False
    return True
