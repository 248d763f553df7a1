"""Fuzz the decoders of Avro, Protobuf and JSON: what fastavro, Google's runtime and json read is the truth.

python -m tests.fuzz [MINUTES]

The properties are those of the unit tests, with new seeds until the time is over. Each call of a decoder is bounded in
processor time and in memory, by the bytes that it is given.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import wraps
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offset_ledger.decoding.json.decoder import JsonDecoder
from offset_ledger.decoding.protobuf.decoder import protobuf_decoder
from offset_ledger.decoding.typed.decoder import TypedDecoder
from offset_ledger.pipeline_file.pipeline import Limits
from tests.unit.decoding import test_decoding_batch, test_decoding_oracle
from tests.unit.decoding.avro import test_avro_oracle, test_avro_poison
from tests.unit.decoding.avro.avro_checks import check_proven
from tests.unit.decoding.avro.avro_records import Written, schemas
from tests.unit.decoding.protobuf import test_protobuf_oracle, test_protobuf_proofs
from tests.unit.decoding.protobuf.oracle import shape_of
from tests.unit.decoding.protobuf.proofs import check_proofs
from tests.unit.decoding.protobuf.random_messages import fill
from tests.unit.decoding.protobuf.random_schemas import case, randoms, seeds

SECONDS, SECONDS_PER_MEBIBYTE = 2.0, 20.0
MEBIBYTES, MEBIBYTES_PER_MEBIBYTE = 64, 600
MEBIBYTE = 1 << 20
EXAMPLES = 200


def bounded(kind: type[Any], name: str) -> None:
    """Let a method of a decoder fail where it takes more time or memory than its bytes allow."""
    method = getattr(kind, name)

    @wraps(method)
    def checked(self: Any, value: Any, *others: Any) -> Any:
        size = (value.nbytes if isinstance(value, pa.Array) else len(value or b"")) / MEBIBYTE
        memory, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        result = method(self, value, *others)
        seconds = time.process_time() - begun
        mebibytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
        assert seconds < SECONDS + SECONDS_PER_MEBIBYTE * size, (seconds, value)
        assert mebibytes < MEBIBYTES + MEBIBYTES_PER_MEBIBYTE * size, (mebibytes, value)
        return result

    setattr(kind, name, checked)


def grown(random: Random, value: bytes) -> bytes:
    """The bytes with a part of them repeated, up to some hundred thousand bytes."""
    start = random.randrange(len(value) + 1)
    part = value[start : start + random.randint(1, 9)]
    return value[:start] + part * (random.choice((10, 1_000, 100_000)) // max(len(part), 1)) + value[start:]


def grown_avro(data: st.DataObject, random: Random) -> None:
    """A record that grows costs no more than its bytes allow, and both ways of reading agree about it."""
    schema = data.draw(schemas())
    written = Written(schema)
    value = grown(random, written.write(written.value(data.draw, written.parsed)))
    check_proven(test_avro_poison.whole(schema), [value])


def grown_protobuf(seed: int, columns: int, random: Random) -> None:
    """The same of a message."""
    found = case(seed)
    shape, _ = shape_of(found.make.DESCRIPTOR, columns)
    value = grown(random, fill(random, found.make()).SerializePartialToString())
    check_proofs(protobuf_decoder(found.writer, shape, Limits(), found.name), shape, [value])


def properties() -> list[Callable[[], None]]:
    """The properties of the unit tests that draw their records, and those of records that grow."""
    limits = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    modules = (
        *(test_avro_oracle, test_avro_poison, test_protobuf_oracle, test_protobuf_proofs),
        *(test_decoding_oracle, test_decoding_batch),
    )
    drawn = [
        test
        for module in modules
        for name, test in vars(module).items()
        if name.startswith("test_") and hasattr(test, "hypothesis") and not hasattr(test, "pytestmark")
    ]
    own = [given(st.data(), randoms)(grown_avro), given(seeds, st.integers(0, 3), randoms)(grown_protobuf)]
    return [*drawn, *map(limits, own)]


def main(minutes: float) -> None:
    """Run the properties in turns until the time is over; the first that does not hold is raised with its example."""
    warnings.simplefilter("ignore")
    for kind in (JsonDecoder, TypedDecoder):
        for name in ("decode", "prove"):
            bounded(kind, name)
    tests, end, runs = properties(), time.monotonic() + 60 * minutes, 0
    Random().shuffle(tests)
    while time.monotonic() < end:
        tests[runs % len(tests)]()
        runs += 1
    print(f"{len(tests)} properties, {runs} rounds of some hundred records: no difference, and no record took too much")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5)
