"""A schema that no record can be read with."""

from __future__ import annotations


class SchemaProblem(Exception):
    """The text is no schema, or not one that the pipeline's records can have; says in one line what is wrong."""
