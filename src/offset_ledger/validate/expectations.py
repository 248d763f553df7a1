"""Great Expectations itself: imported only when needed (it takes seconds), quietly, and with its analytics off."""

from __future__ import annotations

import logging
import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from offset_ledger.errors import one_line
from offset_ledger.extras import require

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


def names_rows(expectation: Expectation) -> bool:
    """Whether the expectation is about single rows, so that the failing ones can be named."""
    from great_expectations.expectations import expectation as base

    row_level = (base.ColumnMapExpectation, base.ColumnPairMapExpectation, base.MulticolumnMapExpectation)
    return isinstance(expectation, row_level) and expectation.expectation_type not in _TYPE_CHECKS


def runs_on_postgres(expectation: Expectation) -> bool:
    """Whether Great Expectations can run it in Postgres; some types exist for pandas and Spark only."""
    return expectation.expectation_type in _TYPE_CHECKS or has_sql(type(expectation))


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
