"""The columns of a JSON Schema and those of sampled documents, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from offset_ledger.config.json_path import touch
from offset_ledger.decoding.inferred import Inferred
from offset_ledger.operations.init.json_columns import NARROWED


def refined(by_schema: Sequence[Inferred], by_sample: Sequence[Inferred]) -> tuple[Inferred, ...]:
    """The columns of a JSON Schema: texts narrowed by the sampled documents, and members that it does not mention."""
    sampled = {each.path: each for each in by_sample}
    narrowed = [
        replace(each, type=in_sample.type, doubt=in_sample.doubt)
        if each.type == "text" and (in_sample := sampled.get(each.path)) and in_sample.type in NARROWED
        else each
        for each in by_schema
    ]
    unknown = [each for each in by_sample if not any(touch(each.path, known.path) for known in by_schema)]
    more = [replace(each, nullable=True, doubt="not in the schema") for each in unknown]
    return (*narrowed, *more)
