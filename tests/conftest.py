"""Real servers as fixtures: started once a run, a database and a topic of its own for each test."""

from __future__ import annotations

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
]

settings.load_profile("all")
