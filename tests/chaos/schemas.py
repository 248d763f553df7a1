"""Records that name their schema: a new schema now and then, which the ledger does not know yet."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

from offset_ledger.model.writer_schema import SchemaLanguage
from offset_ledger.outside.schema_registry.client import Registry
from tests.chaos.oracle import Kind

FORMAT = ", format: json_schema, registry: registry_default"
HEAD = 5
_UNKNOWN = (2**31 - 1).to_bytes(4, "big")


@dataclass
class Schemas:
    """The schemas of one topic; each record names one of them."""

    registry: Registry
    topic: str
    ids: list[int] = field(default_factory=list)
    named: int = 0
    records_a_schema: int = 70

    def framed(self, random: Random, kind: Kind, value: bytes) -> bytes:
        """The record in Confluent's wire format; of malformed ones some have a frame that is none, or an unknown id."""
        if self.named % self.records_a_schema == 0:
            self.ids.append(self._register(len(self.ids)))
        self.named += 1
        head = b"\0" + random.choice(self.ids).to_bytes(4, "big")
        if kind is Kind.MALFORMED:
            head = random.choice((head, head, b"\0" + _UNKNOWN, b"\1" + head[1:]))
        return head + value

    def _register(self, number: int) -> int:
        text = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": f"{self.topic}.{number}",
            "type": "object",
        }
        return self.registry.register(f"{self.topic}-value", SchemaLanguage.JSON, json.dumps(text))
