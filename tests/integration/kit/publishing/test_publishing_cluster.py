"""Publishing to three brokers: with Kafka's own Java clients, in transactions, through crashes and lost brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import KafkaError, NoError

from offset_ledger.errors import JournalMismatch, ProducerFenced, PublishFailed, TransactionOutcomeUnknown
from offset_ledger.outside.connections import environment_name
from offset_ledger.outside.producer import publisher as producer
from offset_ledger.outside.producer.partitioner import RoundRobin
from offset_ledger.outside.producer.publisher import Acknowledged, Publisher, publish
from offset_ledger.outside.producer.record import Record, RecordLimits
from offset_ledger.outside.producer.settings import COMPRESSIONS, read_settings
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.file_feed import publish_file
from offset_ledger_kit.publishing.forms import Form
from offset_ledger_kit.publishing.process import Consumed, Processed, process
from offset_ledger_kit.publishing.record_file import CheckedFile, RecordFile
from offset_ledger_kit.publishing.serializers import BYTES, DOUBLE, INTEGER, JSON, LONG, SHORT, STRING, Serializer
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.java import find_java
from offset_ledger_kit.sandbox.kafka import Broker, Kafka
from offset_ledger_kit.sandbox.process import Launch, silent
from tests.fixtures.java_clients import SERIALIZATION, JavaClients, java_classes, java_serializers
from tests.fixtures.topic_reader import Place, read, values

pytestmark = [pytest.mark.full, pytest.mark.minutes(1)]

Command = Callable[..., tuple[int, str, str]]

numbers = count()


@pytest.fixture(scope="module")
def kafka(three_brokers: Kafka) -> Kafka:
    three_brokers.up(find_java(), Launch(silent))
    return three_brokers


@pytest.fixture(scope="module")
def extra(kafka: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap}


@pytest.fixture(scope="module")
def java(kafka: Kafka) -> JavaClients:
    return JavaClients(find_java(), kafka.bootstrap)


@pytest.fixture
def command(extra: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``offset-ledger kafka publish`` with these arguments, on these brokers: its exit code, stdout and stderr."""
    connection = json.dumps({"conn_type": "kafka", "extra": json.dumps(extra)})
    monkeypatch.setenv(environment_name("kafka_default"), connection)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["kafka", "publish", *arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def topic(extra: dict[str, str]) -> Callable[[int], str]:
    """Makes topics of factor 3 that need two replicas in sync."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(numbers)}"
        dotted = {name.replace("_", "."): value for name, value in configs.items()}
        create_topic(extra, name, partitions, 3, {"retention.ms": "-1", "min.insync.replicas": "2", **dotted})
        return name

    return make


def numbered(numbers: Iterable[int], **more: Any) -> list[Record]:
    return [Record(b"k%d" % number, b"%d" % number, **more) for number in numbers]


# -- with the Java clients -------------------------------------------------------------------------------------


def test_the_console_consumer_reads_what_is_published_here(
    extra: dict[str, str], java: JavaClients, topic: Callable[..., str]
) -> None:
    name = topic(3)
    form = Form(LONG, DOUBLE, new_id=lambda: "e")
    sent = [
        form.record(2**40 + n, n / 3, [("publish_at", b"p"), ("trace", b"t%d" % n)], 1_700_000_000_000 + n, n % 3)
        for n in range(30)
    ]
    places: dict[int, Acknowledged] = {}
    with Publisher(extra, name) as publisher:
        for n, record in enumerate(sent):
            places[n] = publisher.send_and_wait(record)
    shown = [
        "print.timestamp", "print.key", "print.offset", "print.partition", "print.headers", "print.value"
    ]  # fmt: skip
    options = [word for each in shown for word in ("--formatter-property", f"{each}=true")]
    classes = [f"--formatter-property={part}.deserializer={SERIALIZATION}.{kind}Deserializer"
               for part, kind in (("key", "Long"), ("value", "Double"))]  # fmt: skip
    found = java.console_consumer(name, len(sent), *options, *classes)
    assert sorted(found) == sorted(
        f"CreateTime:{1_700_000_000_000 + n}\tPartition:{n % 3}\tOffset:{places[n].offset}\t"
        f"publish_at:p,trace:t{n},event_id:e\t{2**40 + n}\t{n / 3}"
        for n in range(30)
    )


def test_every_compression_is_read_by_the_console_consumer(
    extra: dict[str, str], java: JavaClients, topic: Callable[..., str]
) -> None:
    name = topic()
    sent = []
    for kind in COMPRESSIONS:
        part = [Record(None, b"%s %d " % (kind.encode(), n) + b"ab" * 100) for n in range(200)]
        publish(part, extra, name, settings=read_settings(extra, {"compression.type": kind}))
        sent += part
    found = java.console_consumer(name, len(sent))
    assert found == [(record.value or b"").decode() for record in sent]
    assert values(extra, name) == [record.value for record in sent]


def random_key(random: Random) -> str:
    alphabet = [*map(chr, range(0x20, 0x7F)), "ä", "Ω", "漢", "🦊"]
    return "".join(random.choices(alphabet, k=random.randint(1, 40)))


def test_ten_thousand_keys_go_where_the_java_client_sends_them(
    extra: dict[str, str], java: JavaClients, topic: Callable[..., str]
) -> None:
    random = Random(7)
    keys = random.sample(sorted({random_key(random) for _ in range(11_000)}), 10_000)
    theirs, ours = topic(7), topic(7)
    lines = "".join(f"{key}\t{number}\n" for number, key in enumerate(keys))
    java.console_producer(theirs, lines, "--reader-property", "parse.key=true", "--compression-codec", "zstd")
    publish([Record(key.encode(), b"%d" % number) for number, key in enumerate(keys)], extra, ours)

    def found(name: str) -> set[tuple[bytes | None, bytes | None, int | None]]:
        return {(record.key, record.value, record.partition) for record in read(extra, name).values()}

    assert found(theirs) == found(ours)
    assert {key for key, _, _ in found(ours)} == {key.encode() for key in keys}


# Java's serializer, ours, and values with the text in which Java shows each.
TYPED: list[tuple[str, Serializer, list[tuple[Any, str]]]] = [
    ("String", STRING, [(text, text) for text in ("", "a", "ä漢🦊", "line\nbreak\t")]),
    ("Short", SHORT, [(n, str(n)) for n in (0, -1, 258, 2**15 - 1, -(2**15))]),
    ("Integer", INTEGER, [(n, str(n)) for n in (0, -1, 258, 2**31 - 1, -(2**31))]),
    ("Long", LONG, [(n, str(n)) for n in (0, -1, 258, 2**63 - 1, -(2**63))]),
    ("Double", DOUBLE, [(0.0, "0.0"), (-0.0, "-0.0"), (-1.5, "-1.5"), (0.1, "0.1"), (1e308, "1.0E308"),
                        (5e-324, "4.9E-324"), (float("inf"), "Infinity")]),
    ("ByteArray", BYTES, [(data, data.hex()) for data in (b"", b"\x00", b"\x00\xff\x80")]),
    ("JSON", JSON, [({"a": ["ä", 1, None, True]}, '{"a":["ä",1,null,true]}'), ("🦊", '"🦊"'), ([], "[]"),
                    (-1.5, "-1.5")]),
]  # fmt: skip


def test_every_serializer_writes_and_reads_what_its_java_serializer_does(
    extra: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic()
    cases = [(kind, serializer, *case) for kind, serializer, every in TYPED for case in every]
    publish([Record(None, serializer.serialize(value)) for _, serializer, value, _ in cases], extra, name)
    with java_classes() as classes:
        java = java_serializers(classes)
        for (kind, serializer, value, text), ours in zip(cases, values(extra, name), strict=True):
            theirs = bytes(java.write(kind, text))
            assert java.read(kind, ours) == text, kind
            assert ours == theirs or kind == "JSON"  # where one escapes what the other writes as it is
            assert repr(serializer.deserialize(theirs)) == repr(value), kind


# Hashes from the Java client's own UtilsTest.testMurmur2.
HASHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("count", [1, 7, 64])
def test_every_key_is_hashed_as_the_java_client_hashes_it(
    extra: dict[str, str], topic: Callable[..., str], count: int
) -> None:
    random, name = Random(11), topic(count)
    keys = [b"", "ключ".encode(), "漢🦊".encode(), b"\xff\xfe", *(random.randbytes(size) for size in range(1, 200))]
    publish([Record(key, b"v") for key in (*keys, *HASHED)], extra, name)
    homes = {record.key: record.partition for record in read(extra, name).values()}
    with java_classes() as classes:
        chooser = classes.org.apache.kafka.clients.producer.internals.BuiltInPartitioner
        assert {key: homes[key] for key in keys} == {key: chooser.partitionForKey(key, count) for key in keys}
    assert {key: homes[key] for key in HASHED} == {key: (h & 0x7FFFFFFF) % count for key, h in HASHED.items()}


# -- partitions and sizes --------------------------------------------------------------------------------------


def test_keyless_records_fill_batches_and_round_robin_is_even(extra: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(3)
    patient = read_settings(extra, {"linger.ms": "10000"})  # on a machine that is busy, too, one batch takes them all
    with Publisher(extra, name, settings=patient) as publisher:
        for partition in range(3):  # librdkafka keeps to a partition whose leader it is connected to
            publisher.send_and_wait(Record(b"connected", None, partition=partition))
        for n in range(300):
            publisher.send(Record(None, b"%d" % n))
        publisher.finish()
    homes = [partition for (partition, _), record in read(extra, name).items() if record.key is None]
    assert (len(homes), len(set(homes))) == (300, 1)  # one batch, so one partition
    name = topic(3)
    small = read_settings(extra, {"batch.size": "200"})  # many new batches, and none of them may cost a turn
    publish([Record(None, b"%d" % n) for n in range(300)], extra, name, settings=small, partitioner=RoundRobin())
    assert [int(value or b"") % 3 for value in values(extra, name)] == [0] * 100 + [1] * 100 + [2] * 100


def test_a_record_above_a_limit_is_refused_and_the_others_are_there(
    extra: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(max_message_bytes="20000")
    good, large = Record(b"k", b"good"), Record(b"k", b"x" * 30_000)
    reported: list[tuple[Record, str]] = []
    with pytest.raises(PublishFailed, match=r"loss: a record takes 30069 bytes and the topic's max\.message\.bytes"):
        publish(
            [good, large],
            extra,
            name,
            limits=RecordLimits(topic_bytes=20_000),
            on_error=lambda record, error: reported.append((record, type(error).__name__)),
        )
    assert reported == [(large, "RecordTooLarge")]
    compressed = read_settings(extra, {"compression.type": "gzip"})
    publish([large], extra, name, limits=RecordLimits(topic_bytes=20_000), settings=compressed)
    assert values(extra, name) == [good.value, large.value]


# -- transactions ----------------------------------------------------------------------------------------------


def test_several_topics_change_together_or_not_at_all(extra: dict[str, str], topic: Callable[..., str]) -> None:
    first, second = topic(), topic()
    both = [Record(None, b"one"), Record(None, b"two", topic=second)]
    publish(both, extra, first, commit=False, transactional_id=f"{first}-both")
    publish(both, extra, first, transactional_id=f"{first}-both")
    assert (values(extra, first), values(extra, second)) == ([b"one"], [b"two"])
    assert values(extra, second, "read_uncommitted") == [b"two", b"two"]


def test_a_zombie_is_fenced(extra: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic()
    fenced = pytest.raises(ProducerFenced, match="a newer publisher with the transactional id")
    with fenced, Publisher(extra, name, transactional_id=name) as zombie:
        zombie.send_and_wait(Record(None, b"zombie"))
        publish([Record(None, b"newer")], extra, name, transactional_id=name)
        zombie.finish()
    with fenced, Publisher(extra, name, transactional_id=name) as zombie:
        publish([Record(None, b"newest")], extra, name, transactional_id=name)
        zombie.send(Record(None, b"too late"))
        zombie.finish()
    assert values(extra, name) == [b"newer", b"newest"]


CRASHING = """
import json, os, signal, sys
from pathlib import Path
from offset_ledger_kit.publishing.file_feed import publish_file
from offset_ledger_kit.publishing.record_file import RecordFile

extra, topic, path, acks = json.loads(sys.argv[1])
seen = 0

def on_ack(*_):
    global seen
    seen += 1
    if seen == acks:
        os.kill(os.getpid(), signal.SIGKILL)

publish_file(extra, topic, RecordFile(Path(path)).check(), transactional_id=topic, records_per_transaction=100,
             on_ack=on_ack)
"""


def crash(extra: dict[str, str], topic: str, path: Path, acks: int) -> None:
    """Publish in a process that dies when so many records are acknowledged."""
    program = [sys.executable, "-c", CRASHING, json.dumps([extra, topic, str(path), acks])]
    assert subprocess.run(program, check=False, timeout=120).returncode == -signal.SIGKILL


def file_of(path: Path, numbers: Iterable[int]) -> CheckedFile:
    path.write_text("".join(f'{{"event_id": "e{n}", "publish_at": "2026-01-01T00:00:00Z"}}\n' for n in numbers))
    return RecordFile(path).check()


def ids(extra: dict[str, str], topic: str) -> list[str]:
    return [json.loads(value or b"")["event_id"] for value in values(extra, topic)]


def test_a_crashed_publication_continues_where_it_stopped(
    extra: dict[str, str], topic: Callable[..., str], tmp_path: Path
) -> None:
    name, path = topic(), tmp_path / "events.jsonl"
    checked = file_of(path, range(450))
    crash(extra, name, path, 250)
    summary, before = publish_file(extra, name, checked, transactional_id=name, records_per_transaction=100)
    assert (before, summary.records) == (200, 250)
    assert ids(extra, name) == [f"e{n}" for n in range(450)]
    assert len(values(extra, name, "read_uncommitted")) > 450  # the crash did leave records behind

    assert publish_file(extra, name, checked, transactional_id=name)[1] == 450
    grown = file_of(path, range(500))
    assert publish_file(extra, name, grown, transactional_id=name)[0].records == 50
    assert ids(extra, name) == [f"e{n}" for n in range(500)]

    other = file_of(tmp_path / "other.jsonl", range(500, 750))
    crash(extra, name, tmp_path / "other.jsonl", 150)
    with pytest.raises(JournalMismatch, match="has published 100 records of another file"):
        publish_file(extra, name, grown, transactional_id=name)
    assert publish_file(extra, name, other, transactional_id=name)[1] == 100
    assert ids(extra, name) == [f"e{n}" for n in range(750)]


def test_a_lost_answer_to_a_commit_is_resolved_by_reading_back(
    extra: dict[str, str], topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fates = topic(), iter(["answer lost", "request lost"])
    within = producer.within  # type: ignore[attr-defined]

    def losing(seconds: float, act: Callable[[float], None]) -> None:
        fate = next(fates, None) if getattr(act, "__name__", "") == "commit_transaction" else None
        if fate != "request lost":
            within(seconds, act)
        if fate:
            raise TimeoutError

    monkeypatch.setattr(producer, "within", losing)
    checked = file_of(tmp_path / "events.jsonl", range(250))
    summary, before = publish_file(extra, name, checked, transactional_id=name, records_per_transaction=100)
    assert (summary.records, before) == (250, 0)
    assert ids(extra, name) == [f"e{n}" for n in range(250)]
    fates = iter(["answer lost"])
    with pytest.raises(TransactionOutcomeUnknown, match="read the topic back"):
        publish([Record(None, b"{}")], extra, topic(), transactional_id=f"{name}-plain")


def test_read_process_produce_changes_everything_together(extra: dict[str, str], topic: Callable[..., str]) -> None:
    source, doubled, odd = topic(3), topic(2), topic()
    publish(numbered(range(300)), extra, source)
    publish(numbered(range(1_000, 1_010)), extra, source, commit=False, transactional_id=f"{source}-aborted")
    failing = {"left": 150}

    def transform(record: Consumed) -> Iterator[Record]:
        failing["left"] -= 1
        if failing["left"] == 0:
            raise LookupError("half way through a transaction")
        number = int(record.value or b"")
        yield Record(record.key, b"%d" % (2 * number))
        if number % 2:
            yield Record(record.key, record.value, topic=odd)

    def run() -> Processed:
        return process(
            extra, source, doubled, transform, group=source, transactional_id=f"{source}-p", records_per_transaction=60
        )

    with pytest.raises(LookupError, match="half way"):
        run()
    committed = len(values(extra, doubled))
    assert 90 <= committed < 150  # whole transactions of at most 60
    deadline, after = time.monotonic() + 60, Processed(0, 0, 0)
    while after.read < 300 - committed:  # the end for committed readers may come a moment after the commit
        assert time.monotonic() < deadline
        after = Processed(*(a + b for a, b in zip(after, run(), strict=True)))
    assert sorted(int(value or b"") for value in values(extra, doubled)) == [2 * n for n in range(300)]
    assert sorted(int(value or b"") for value in values(extra, odd)) == list(range(1, 300, 2))
    assert run() == Processed(0, 0, 0)
    publish(numbered([300]), extra, source)
    stopped = process(
        extra, source, doubled, transform, group=source, transactional_id=f"{source}-p", stop=lambda: True
    )
    assert stopped == Processed(0, 0, 0)


def test_a_member_that_was_put_out_of_its_group_commits_nothing(
    extra: dict[str, str], topic: Callable[..., str]
) -> None:
    source, target = topic(), topic()
    publish(numbered(range(10)), extra, source)
    removed: list[Any] = []

    def transform(record: Consumed) -> Iterator[Record]:
        if not removed:
            with closing(KafkaAdminClient(bootstrap_servers=extra["bootstrap.servers"].split(","))) as admin:
                (member,) = admin.describe_groups([source])[source]["members"]
                removed.extend(admin.remove_group_members(source, [MemberToRemove(member["member_id"])]).values())
        yield Record(None, record.value)

    def run() -> Processed:
        return process(extra, source, target, transform, group=source, transactional_id=f"{source}-p")

    with pytest.raises(PublishFailed, match="CommitFailedError"):
        run()
    assert removed == [NoError]
    assert values(extra, target) == []
    assert run() == Processed(10, 10, 1)
    assert values(extra, target) == [b"%d" % number for number in range(10)]


# -- several producers -----------------------------------------------------------------------------------------


def event(number: int, who: str) -> Record:
    """The newest state of event ``number % 20`` so far; who sends it is of no matter."""
    body = {"event_id": f"e{number % 20}", "publish_at": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"}
    return Form(BYTES).record(who.encode(), {**body, "n": number})


def test_several_producers_of_one_partition_need_an_order_of_the_events(
    extra: dict[str, str], topic: Callable[..., str]
) -> None:
    name, sent = topic(), [event(number, "ab"[number % 2]) for number in range(200)]
    with Publisher(extra, name) as a, Publisher(extra, name) as b:
        for record in reversed(sent[1::2]):  # this producer is slow, and its oldest events come last
            b.send(record)
        b.finish()
        for record in sent[::2]:
            a.send(record)
        a.finish()
    found = [json.loads(value or b"") for value in values(extra, name)]
    assert [body["n"] for body in found] != sorted(body["n"] for body in found)
    newest: dict[str, dict[str, Any]] = {}
    for body in found:  # as the sink merges, and as it would in any other order
        newest[body["event_id"]] = max(body, newest.get(body["event_id"], body), key=lambda each: each["publish_at"])
    assert {key: body["n"] for key, body in newest.items()} == {f"e{n % 20}": n for n in range(180, 200)}


def test_one_partition_a_producer_keeps_each_ones_order(extra: dict[str, str], topic: Callable[..., str]) -> None:
    name = topic(2)
    with Publisher(extra, name) as a, Publisher(extra, name) as b:
        for number in range(200):
            a.send(Record(None, b"a%d" % number, partition=0))
            b.send(Record(None, b"b%d" % number, partition=1))
        a.finish()
        b.finish()
    assert values(extra, name) == [b"%s%d" % (who, number) for who in (b"a", b"b") for number in range(200)]


# -- the command line ------------------------------------------------------------------------------------------


def test_the_command_publishes_a_file_or_says_why_not(
    extra: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    command: Command,
) -> None:
    name, path = topic(), tmp_path / "rows.csv"
    run = partial(command, name, "--file", str(path))

    once = ("--transactional-id", name, "--key", "$.event_id", "--json")
    path.write_text("event_id,publish_at\ne0,2026-01-01T00:00:00Z\ne1\n")
    code, out, err = run(*once[:-1])
    assert (code, out) == (1, "")
    assert err == f"{path}:3: should have the 2 fields of line 1, found 1\n"
    path.write_text("event_id,publish_at\ne0,2026-01-01T00:00:00Z\ne1,2026-01-01T00:00:00Z\n")
    code, out, _ = run(*once)
    assert code == 0
    reported = json.loads(out)
    assert (reported["acknowledged"], reported["failed"], reported["already_there"]) == (2, 0, 0)
    assert json.loads(run(*once)[1])["already_there"] == 2
    assert ids(extra, name) == ["e0", "e1"]

    code, _, err = run("--acks", "0")
    assert code == 1
    assert "loss: acks=0" in err
    assert "2 records acknowledged" in run("--acks", "0", "--allow", "loss", "--partition", "0")[1]
    code, _, err = run("--partition", "1")
    reported = f"--partition should be 0, all that {name} has, found 1"
    assert (code, err) == (1, f"offset-ledger: ConfigurationError: {reported}\n")
    code, _, err = run("--key", "event_id")
    assert (code, err) == (1, "offset-ledger: ConfigurationError: --key: 'event_id' is not a path; write $.event_id\n")
    code, _, err = command("no-such-topic", "--file", str(path))
    assert code == 1
    assert "topic 'no-such-topic' does not exist" in err


def test_the_command_names_lines_that_are_too_large_and_says_how_far_it_came(
    extra: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    command: Command,
) -> None:
    small, path = topic(max_message_bytes="20000"), tmp_path / "events.jsonl"
    run = partial(command, small, "--file", str(path))
    pad = "".join(map(chr, Random(3).choices(range(0x61, 0x7B), k=60_000)))  # compressed it is too large all the same
    path.write_text(f'{{"event_id": "e0"}}\n{{"event_id": "e1", "pad": "{pad}"}}\n{{"event_id": "e2"}}\n')
    code, _, err = run()
    assert (code, err.splitlines()[0].split(" a record")[0]) == (1, f"{path}:2: loss:")
    assert values(extra, small) == []
    code, _, err = run("--compression", "gzip")
    assert code == 1
    assert "of 3 records are acknowledged and some more may be stored" in err
    assert "correct what is refused, which can never be sent as it is" in err


def test_an_interrupted_command_says_what_is_committed_and_goes_on(
    extra: dict[str, str],
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    name, path = topic(), tmp_path / "events.jsonl"
    file_of(path, range(450))
    monkeypatch.setitem(publish_file.__kwdefaults__, "records_per_transaction", 100)

    run = partial(command, name, "--file", str(path), "--transactional-id", name)

    @contextmanager
    def pressing_control_c(_total: int, _what: str) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if done == 200:
                signal.raise_signal(signal.SIGINT)

        yield advance

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with monkeypatch.context() as patch:
            patch.setattr("offset_ledger.base.progress.progress", pressing_control_c)
            code, _, err = run()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert code == 130
    assert "100 of 450 records are committed, and no others are visible; the same command sends" in err
    assert ids(extra, name) == [f"e{n}" for n in range(100)]
    code, _, err = run()
    assert (code, err) == (0, "100 of 450 records are there from an earlier run\n")
    assert ids(extra, name) == [f"e{n}" for n in range(450)]


# -- brokers that die (last: they take the coordinators along) -------------------------------------------------


def in_sync(extra: dict[str, str], topic: str) -> set[int]:
    """How many replicas of each partition are in sync; nothing if the broker that was asked is away.

    The client asks brokers at random and waits longer for each that is dead: it starts again after a short while.
    """
    servers = extra["bootstrap.servers"].split(",")
    try:
        with closing(KafkaAdminClient(bootstrap_servers=servers, bootstrap_timeout_ms=3000)) as admin:
            (described,) = admin.describe_topics([topic])
    except KafkaError:
        return set()
    return {len(partition["isr_nodes"]) for partition in described["partitions"]}


def wait_for(extra: dict[str, str], topic: str, replicas: int) -> None:
    deadline = time.monotonic() + 120
    while in_sync(extra, topic) != {replicas}:
        assert time.monotonic() < deadline, in_sync(extra, topic)
        time.sleep(0.2)


def read_until(extra: dict[str, str], topic: str, wanted: set[bytes | None]) -> dict[Place, bytes | None]:
    """The values by place; a leader that was just elected may show its last records a moment later."""
    deadline = time.monotonic() + 60
    while True:
        found = {place: record.value for place, record in read(extra, topic).items()}
        if wanted <= set(found.values()) or time.monotonic() > deadline:
            return found


def killing(records: list[Record], broker: Broker) -> Iterator[Record]:
    for number, record in enumerate(records):
        if number == len(records) // 3:
            broker.kill()
        yield record


def test_one_lost_broker_loses_nothing_and_two_refuse(
    kafka: Kafka, extra: dict[str, str], topic: Callable[..., str]
) -> None:
    name = topic(6)
    acknowledged: dict[tuple[int, int], Record] = {}

    def on_ack(record: Record, partition: int, offset: int) -> None:
        acknowledged[partition, offset] = record

    publish(killing(numbered(range(30_000)), kafka.broker(3)), extra, name, on_ack=on_ack)
    found = read_until(extra, name, {record.value for record in acknowledged.values()})
    assert found == {place: record.value for place, record in sorted(acknowledged.items())}
    assert sorted(int(value or b"") for value in found.values()) == list(range(30_000))

    impatient = {"delivery.timeout.ms": "4000", "request.timeout.ms": "2000"}
    more = numbered(range(30_000, 30_050))
    settings = read_settings(extra, impatient, allow={"loss"})
    refusing = Publisher(extra, name, settings=settings)
    with pytest.raises(PublishFailed) as caught, refusing:  # noqa: PT012
        refusing.send_and_wait(Record(None, b"30050"))  # a producer without its id would not even be refused
        kafka.broker(2).kill()
        wait_for(extra, name, 1)
        for record in more[:25]:
            refusing.send(record)
        time.sleep(1)  # these expire while those before them are between two attempts
        for record in more[25:]:
            refusing.send(record)
        refusing.finish()
    assert set(caught.value.unconfirmed) == set(more)
    assert refusing.summary.failed == 50
    assert refusing.summary.retried is None

    in_bulk = numbered(range(30_051, 30_060))
    with pytest.raises(PublishFailed, match=r"KafkaTimeoutError|NotEnoughReplicas") as bulk:
        publish(in_bulk, extra, name, settings=settings)
    assert (set(bulk.value.unconfirmed), bulk.value.exit_code) == (set(in_bulk), 75)

    for node in (2, 3):
        kafka.broker(node).start()
    kafka.wait()
    wait_for(extra, name, 3)
    publish(caught.value.unconfirmed, extra, name)
    everything = {b"%d" % number for number in range(30_051)}
    assert set(read_until(extra, name, {*everything}).values()) == everything

    again = topic(6)
    publish(killing(numbered(range(30_000)), kafka.broker(3)), extra, again, transactional_id=again)
    found = read_until(extra, again, {b"%d" % number for number in range(30_000)})
    assert sorted(int(value or b"") for value in found.values()) == list(range(30_000))
