"""The exporter on a real ledger and a real topic, as promtool and Prometheus read it."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from offset_ledger.errors import ConfigurationError
from offset_ledger.interfaces.exporter import serve
from offset_ledger.interfaces.exporter.collector import LedgerCollector
from offset_ledger.model.ranges import OffsetRange
from offset_ledger.operations.repair.prune import prune_beyond
from offset_ledger.outside.connections import environment_name
from offset_ledger.postgres.ledger.database import rows
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.sandbox.layout import HOST, free_ports
from tests.fixtures.ages import same_age
from tests.fixtures.exporter_bench import WEEK, Bench, Samples, behind, parsed, scraped
from tests.fixtures.staged import ME

DISPOSITIONS = ("inserted", "updated", "superseded", "duplicate", "deleted", "quarantined", "skipped", "gap")


def test_a_scrape_has_what_ledger_and_topic_say(bench: Bench) -> None:
    before = scraped(bench)
    assert before["pipeline_info", "public.orders"] == before["topic_readable",] == 1
    assert [key for key in before if key[0] in ("offsets_total", "last_commit_timestamp_seconds")] == []

    sent = behind(bench)
    found = scraped(bench)
    assert {key: value for key, value in found.items() if key[0] == "up"} == {
        ("up", "kafka_default", "kafka"): 1,
        ("up", "postgres_default", "postgres"): 1,
    }
    assert {key[1]: value for key, value in found.items() if key[0] == "lag_offsets"} == {"0": 2, "1": 1}
    assert {key[1]: value for key, value in found.items() if key[0] == "offsets_total"} == {
        **dict.fromkeys(DISPOSITIONS, 0),
        "inserted": 5,
        "duplicate": 1,
        "quarantined": 1,
    }
    ((moved, planned, rejected),) = rows(
        bench.session,
        "SELECT (SELECT extract(epoch FROM max(updated_at))::float FROM offset_ledger.cursor),"
        " extract(epoch FROM planned_at)::float, state FROM offset_ledger.batch WHERE state = 'rejected'",
    )
    assert found["last_commit_timestamp_seconds",] == pytest.approx(moved, abs=1e-3)
    assert found["open_batch_timestamp_seconds", rejected] == pytest.approx(planned, abs=1e-3)
    assert found["newest_record_timestamp_seconds",] == sent.timestamp()
    assert found["unread_expiry_timestamp_seconds",] == (sent + WEEK).timestamp()
    assert 0 <= found["lag_seconds",] - (datetime.now(UTC) - sent).total_seconds() + 300 <= 300
    counted = ("rejected_batches", "open_questions", "quarantined_records", "waiting_dead_letters", "lost_offsets")
    assert [found[name,] for name in counted] == [1, 0, 1, 0, 0]
    assert (found["audit_findings", "error"], found["audit_findings", "warning"]) == (1, 0)
    assert {key[1] for key in found if key[0] == "last_batch_step_seconds"} == {"stage", "validate", "commit"}


def sums(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if key[0] == "offsets_total"}


def test_the_sums_of_offsets_survive_a_prune(bench: Bench) -> None:
    sent = datetime.now(UTC)
    for n in range(4):
        bench.publish(0, sent, f"{n}", f"{n} too")
        bench.ingest()
    bench.replay(OffsetRange(0, 1, 3))
    bench.publish(1, sent, "last")
    bench.ingest()
    before = sums(scraped(bench))
    assert (before["offsets_total", "inserted"], before["offsets_total", "duplicate"]) == (9, 2)
    assert prune_beyond(bench.pipeline, same_age(timedelta(0)), 1, ME).batches > 2
    assert sums(scraped(bench)) == before


@pytest.mark.parametrize("away", ["kafka_default", "postgres_default"])
def test_a_server_that_is_away_is_down_and_the_scrape_has_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    behind(bench)
    whole = scraped(bench)
    (port,) = free_ports(1)
    servers = bench.servers
    gone = {
        "kafka_default": replace(servers.kafka, extra={"bootstrap.servers": f"{HOST}:{port}"}),
        "postgres_default": replace(servers.postgres, host=HOST, port=port),
    }
    monkeypatch.setenv(environment_name(away), gone[away].to_json())
    found = scraped(bench)
    server = away.removesuffix("_default")
    assert found["up", away, server] == 0
    assert sum(value for key, value in found.items() if key[0] == "up") == 1
    assert found["condition", "unknown", "not known"] == 1
    of_log = {"lag_offsets", "lag_seconds", "log_changed", "lost_offsets", "unread_expiry_timestamp_seconds"}
    of_files = {"build_info", "up", "pipeline_file_mistakes", "pipeline_info", "topic_readable", "condition"}
    families = {key[0] for key in whole}
    assert {key[0] for key in found} == (families - of_log if server == "kafka" else of_files)


def test_a_scrape_does_not_wait_for_a_server_that_says_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    behind(bench)
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]
        kafka = replace(bench.servers.kafka, extra={"bootstrap.servers": f"{HOST}:{port}"})
        postgres = replace(bench.servers.postgres, host=HOST, port=port)
        monkeypatch.setenv(environment_name("kafka_default"), kafka.to_json())
        monkeypatch.setenv(environment_name("postgres_default"), postgres.to_json())
        collector = LedgerCollector(bench.folder, timeout=0.5)
        began = time.monotonic()
        families = {family.name for family in collector.collect()}
        assert time.monotonic() - began < 5
    assert families == {
        f"offset_ledger_{name}"
        for name in ("build_info", "up", "pipeline_file_mistakes", "pipeline_info", "topic_readable", "condition")
    }


def test_a_file_with_a_mistake_is_counted_and_hides_no_other(bench: Bench) -> None:
    assert scraped(bench)["pipeline_file_mistakes",] == 0
    (bench.folder / "wrong.yaml").write_text("pipeline: wrong\n")
    found = scraped(bench)
    assert found["pipeline_file_mistakes",] > 0
    assert found["pipeline_info", "public.orders"] == 1


def test_an_address_that_cannot_be_had_is_a_mistake_of_the_user(bench: Bench) -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(ConfigurationError, match="cannot listen on"):
        serve.serve(bench.folder, HOST, taken.getsockname()[1])


def test_once_prints_the_samples_of_a_scrape_as_text_or_json(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    behind(bench)
    monkeypatch.setenv("OFFSET_LEDGER_PIPELINES", str(bench.folder))
    assert main(["serve", "metrics", "--once"]) == 0
    text = parsed(capsys.readouterr().out)
    assert text["lag_offsets", "0"] == 2
    assert main(["serve", "metrics", "--once", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    topic = bench.pipeline.source.topic
    lag = {"name": "offset_ledger_lag_offsets", "labels": {"pipeline": "orders", "topic": topic}}
    for partition, offsets in (("0", 2.0), ("1", 1.0)):
        assert {**lag, "labels": {**lag["labels"], "partition": partition}, "value": offsets} in listed  # type: ignore[dict-item]
