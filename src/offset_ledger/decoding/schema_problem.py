"""What a schema can be wrong about, whatever its language."""

from __future__ import annotations


class SchemaProblem(Exception):
    """A writer's schema that no record can be read with; its text is one line that says why."""
