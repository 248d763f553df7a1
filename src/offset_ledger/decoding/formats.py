"""The decoder of a record format, by its name in the pipeline file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from offset_ledger.config.model import Limits, RecordShape
from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.outcome import Decoder

DECODERS: Mapping[str, Callable[[RecordShape, Limits], Decoder]] = {"json": JsonDecoder}
"""By ``source.format``; the pipeline file admits these names only."""


def compile_decoder(source_format: str, record: RecordShape, limits: Limits) -> Decoder:
    """The decoder for one pipeline's records."""
    return DECODERS[source_format](record, limits)
