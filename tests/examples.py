"""How many examples Hypothesis draws: all of them, with ``--hypothesis-profile=fewer`` (make test) a quarter.

``--hypothesis-profile=many`` draws twenty times as many, for a change of ``decoding/``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

ALL = 100
# An example that takes a millisecond on a quiet machine may take seconds on a busy one.
settings.register_profile("all", deadline=None, max_examples=ALL)
settings.register_profile("fewer", deadline=None, max_examples=ALL // 4)
settings.register_profile("many", deadline=None, max_examples=ALL * 20)


def examples(count: int, **more: Any) -> settings:
    """The settings of a test that draws this many examples, or the share of them that the profile says."""
    return settings(max_examples=max(1, count * settings().max_examples // ALL), deadline=None, **more)
