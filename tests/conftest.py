"""Real servers as fixtures: started once a session, a database and a topic of its own for each test.

In a parallel run each worker is such a session: it has servers of its own, and takes whole files, those that take
longest first. Files that share more than these servers name an ``xdist_group``.
"""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["tests.fixtures.servers", "tests.fixtures.spark"]


def minutes(item: pytest.Item) -> float:
    """How long the file of this test takes, where it says so."""
    mark = item.get_closest_marker("minutes")
    return float(mark.args[0]) if mark else 0.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    items.sort(key=minutes, reverse=True)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
