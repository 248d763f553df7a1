"""What is left of a record's value where its columns have taken theirs: the column ``_rest``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from offset_ledger.decoding.outcome import Code, Mismatch, Reason
from offset_ledger.decoding.proven import Proven

TextOf = Callable[[bytes], str | None]
"""The JSON of what is left of a value, None where nothing is; raises RestRefused."""


class RestRefused(Exception):
    """A part of what is left that no jsonb can hold."""

    def __init__(self, path: str, code: Code, detail: str) -> None:
        super().__init__(path, code, detail)
        self.reason = Reason(path, code, detail)

    @classmethod
    def by(cls, path: str, mismatch: Mismatch) -> RestRefused:
        """The value at this path does not become JSON."""
        return cls(path, mismatch.code, mismatch.detail)


def with_rest(values: pa.BinaryArray, proven: Proven, slot: int, text_of: TextOf) -> Proven:
    """Those of the proven records whose rest is JSON that a jsonb can hold, with that in the slot."""
    if not proven.columns:
        return proven
    texts: list[str | None] = []
    holds = np.ones(len(proven.places), np.bool_)
    for number, value in enumerate(values.take(pa.array(proven.places)).to_pylist()):
        try:
            texts.append(text_of(value))
        except RestRefused:
            texts.append(None)
            holds[number] = False
    columns = [*proven.columns[:slot], pa.array(texts, pa.string()), *proven.columns[slot + 1 :]]
    return Proven(proven.places, columns, proven.skipped).kept(holds)
