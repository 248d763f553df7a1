"""Great Expectations itself: imported only when needed (it takes seconds), quietly, and with its analytics off."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import one_line
from offset_ledger.extras import require
from offset_ledger.validate import known_expectations
from offset_ledger.validate.known_expectations import Facts

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

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
    """Every expectation type that is registered."""
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


def check_installed() -> None:
    """Return if Great Expectations is installed.

    Raises:
        ConfigurationError: it is not.
    """
    require("gx", "a suite")


def facts_of(entry: Mapping[str, Any]) -> Facts:
    """The facts about an entry of a suite file, without the import where the table of known expectations suffices.

    Raises:
        ValueError: Great Expectations refuses it; one line for each argument that is wrong.
    """
    return known_expectations.facts_of(entry) or built_facts(entry)


def built_facts(entry: Mapping[str, Any]) -> Facts:
    """The facts as Great Expectations has them.

    Raises:
        ValueError: as :func:`build`.
    """
    expectation = build(dict(entry))
    kind = type(expectation)
    return Facts(names_rows(kind), runs_on_postgres(kind), tuple(expectation.suite_parameter_options))


def is_known(name: str) -> bool:
    """Whether there is an expectation type of that name."""
    return name in known_expectations.table() or name in known_types()


def implementation(name: str) -> type[Expectation]:
    """The class of an expectation type that is registered."""
    load()
    from great_expectations.expectations.registry import get_expectation_impl

    return get_expectation_impl(name)


def names_rows(kind: type[Expectation]) -> bool:
    """Whether the expectation is about single rows, so that the failing ones can be named."""
    from great_expectations.expectations import expectation as base

    row_level = (base.ColumnMapExpectation, base.ColumnPairMapExpectation, base.MulticolumnMapExpectation)
    return issubclass(kind, row_level) and kind.expectation_type not in _TYPE_CHECKS


def runs_on_postgres(kind: type[Expectation]) -> bool:
    """Whether Great Expectations can run it in Postgres; some types exist for pandas and Spark only."""
    return kind.expectation_type in _TYPE_CHECKS or has_sql(kind)


def has_sql(kind: type[Expectation]) -> bool:
    """Whether a row-level expectation has an implementation in SQL; all others have one."""
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
