"""Real servers as fixtures: started once a session, a database and a topic of its own for each test."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.merge_ways",
    "tests.fixtures.registry",
    "tests.fixtures.registry_bench",
    "tests.fixtures.spark",
    "tests.fixtures.parallel",
]

# An example that takes a millisecond on a quiet machine may take seconds on a busy one.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
