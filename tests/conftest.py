"""Real servers as fixtures: started once a run, a database and a topic of its own for each test."""

from __future__ import annotations

import gc

from hypothesis import settings

from tests import examples  # noqa: F401 - registers the profiles

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.parallel",
    "tests.fixtures.merge_ways",
    "tests.fixtures.registry",
    "tests.fixtures.guids",
    "tests.fixtures.registry_bench",
    "tests.fixtures.spark",
    "tests.fixtures.three_brokers",
]

settings.load_profile("all")

# Thousands of collected tests live to the end of a run: to look through them again and again finds no garbage.
gc.set_threshold(20_000, 50, 50)


def pytest_collection_finish() -> None:
    gc.freeze()
