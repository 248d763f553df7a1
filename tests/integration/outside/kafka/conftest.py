"""One secured broker for the tests of logins, rights and listeners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.secured import Secured, secured_broker


@pytest.fixture(scope="package")
def secured() -> Iterator[Secured]:
    """Its login may do nothing unless a test lets it."""
    with secured_broker() as made:
        yield made
