"""What is proven of many records at once, so that nobody has to ask about each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]


def _nowhere() -> Places:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Proven:
    """Records that are known to decode: their places in the batch, ascending, and a column for each slot.

    The slots are event_id, publish_at and the declared columns; the first two are None where they are Kafka's. There
    may be no columns where there are no such records. ``skipped`` are the places of the records that are known to be
    none of the pipeline's.
    """

    places: Places = field(default_factory=_nowhere)
    columns: Sequence[pa.Array | None] = ()
    skipped: Places = field(default_factory=_nowhere)

    def kept(self, flags: npt.NDArray[np.bool_]) -> Proven:
        """The same with those of its rows alone that have a flag."""
        if flags.all():
            return self
        keep = pa.array(flags)
        columns = [None if column is None else column.filter(keep) for column in self.columns]
        return Proven(self.places[flags], columns, self.skipped)

    def at(self, places: Places) -> Proven:
        """The same, of records that stand at these places of the batch."""
        return Proven(places[self.places], self.columns, places[self.skipped])


def joined(parts: Sequence[Proven]) -> Proven:
    """All parts as one, with ascending places."""
    if len(parts) == 1:
        return parts[0]
    skipped = np.sort(np.concatenate([part.skipped for part in parts])) if parts else _nowhere()
    rows = [part for part in parts if len(part.places)]
    if len(rows) < 2:
        return Proven(rows[0].places, rows[0].columns, skipped) if rows else Proven(skipped=skipped)
    places = np.concatenate([part.places for part in rows])
    order = np.argsort(places)
    columns = [_joined(pieces, order) for pieces in zip(*(part.columns for part in rows), strict=True)]
    return Proven(places[order], columns, skipped)


def _joined(pieces: Sequence[pa.Array | None], order: Places) -> pa.Array | None:
    there = [piece for piece in pieces if piece is not None]
    return pc.take(pa.concat_arrays(there), pa.array(order)) if there else None
