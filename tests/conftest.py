"""Real servers as fixtures: started once a run, a database and a topic of its own for each test."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from hypothesis import settings

from tests import examples  # noqa: F401 - registers the profiles
from tests.fixtures.site import sitecustomize

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.parallel",
    "tests.fixtures.registry",
    "tests.fixtures.guids",
    "tests.fixtures.topic_bench",
    "tests.fixtures.registry_bench",
    "tests.fixtures.spark",
    "tests.fixtures.three_brokers",
]

settings.load_profile("all")

# Imported here, it counts for this process: by its folder for the workers and for each program that a test starts.
_site = [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _site))


def pytest_collection_finish() -> None:
    gc.freeze()
