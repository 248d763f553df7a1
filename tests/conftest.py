"""Real servers as fixtures: started once a session, a database and a topic of its own for each test."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.registry",
    "tests.fixtures.spark",
    "tests.fixtures.parallel",
]
