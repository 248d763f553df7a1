"""Notifications through Airflow's own notifiers, to real HTTP and SMTP servers, remembered in the ledger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from offset_ledger.base.failpoints import VARIABLE
from offset_ledger.model.batch import Origin
from offset_ledger.outside.connections import Connection, environment_name
from offset_ledger.outside.producer.publisher import publish
from offset_ledger.outside.producer.record import Record
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.steps.run.ingest import ingest
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.publishing.topics import create_topic
from offset_ledger_kit.sandbox.layout import free_ports
from tests.fixtures.http_server import Answering, Asked, answering, send, send_json
from tests.fixtures.notifying import Hooks, Notifying
from tests.fixtures.servers import Servers, execute
from tests.fixtures.smtp_sink import smtp_sink

pytestmark = pytest.mark.minutes(1)

BASE_URL = "http://airflow.example:8080"
SLACK = "- slack: {connection: slack_default, channel: orders}\n"
SLACK_WEBHOOK = "- slack_webhook: {connection: slackwebhook_default}\n"
EMAIL = "- email: {connection: smtp_default, to: [ada@example.com], from: airflow@example.com}\n"
WEBHOOK = "- webhook: {connection: http_default, endpoint: hook}\n"
HOOK = sha256(b"'hook'").hexdigest()[:8]
ERROR = "OffsetExpired: offsets 3 to 5 <of> partition 0 & {{ pipeline }} are gone"
LINK = f"{BASE_URL}/dags/ingest_orders/runs/manual__1%2B2"

SEND = """
import sys; from pathlib import Path
from offset_ledger.interfaces.airflow.notify import message, send
from offset_ledger.pipeline_file.pipeline import Cause
from offset_ledger.pipeline_file.parse import parse_pipeline
(entry,) = parse_pipeline(Path(sys.argv[1])).notify
print(send(entry.notifier, message("orders", Cause.RUN_FAILED, "a", "b", ""), 3))
"""
FAILED, ON_SUCCESS = ["failed", "stage", ERROR], ["on_success", "stage", None]


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    made = Hooks(Answering(""))
    made.hanging.set()

    def respond(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        made.hanging.wait(60)
        if asked.path.startswith("/services"):
            send(handler, made.status, b"ok")
        else:
            send_json(handler, made.status, {"ok": made.status == 200})

    with answering(respond) as server:
        made.server = server
        yield made
        made.hanging.set()


@pytest.fixture
def mails() -> Iterator[tuple[int, list[Message]]]:
    with smtp_sink() as sink:
        yield sink


@pytest.fixture
def notifying(servers: Servers, hooks: Hooks, mails: tuple[int, list[Message]], tmp_path: Path) -> Notifying:
    host, port = hooks.server.url.removeprefix("http://").split(":")
    plain = {"disable_ssl": "true", "disable_tls": "true"}
    connections = (
        Connection("slack_default", "slack", password="xoxb-secret", extra={"base_url": f"{hooks.server.url}/api/"}),
        Connection("slackwebhook_default", "slackwebhook", f"{hooks.server.url}/services", password="T0/B0/secret"),
        Connection("http_default", "http", host, int(port)),
        Connection("smtp_default", "smtp", "127.0.0.1", mails[0], extra=plain),
    )
    own = {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__API__BASE_URL": BASE_URL}
    environment = {**own, **{environment_name(each.conn_id): each.to_json() for each in connections}}
    return Notifying(tmp_path / "orders.yaml", environment, servers.postgres)


def test_every_notifier_gets_the_message_once(
    notifying: Notifying, hooks: Hooks, mails: tuple[int, list[Message]]
) -> None:
    notifying.write(SLACK, SLACK_WEBHOOK, EMAIL, WEBHOOK)
    notifying.met(FAILED, FAILED)
    notifying.met(FAILED)
    subject, advice = (
        "orders: task stage failed with OffsetExpired",
        "What to do: docs/runbook.md, heading OffsetExpired.",
    )
    escaped = ERROR.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for_slack = f"*{subject}*\n{escaped}\n{advice}\n<{LINK}|Open in Airflow>"
    (api, by_api), (webhook, by_webhook), (hook, by_hook) = hooks.received()
    assert (api, by_api["channel"], by_api["text"]) == ("/api/chat.postMessage", "orders", for_slack)
    assert (webhook, by_webhook["text"]) == ("/services/T0/B0/secret", for_slack)
    text = f"{subject}\n{ERROR}\n{advice}\n{LINK}"
    told = {"pipeline": "orders", "cause": "run_failed", "subject": subject, "text": text, "link": LINK}
    assert (hook, by_hook) == ("/hook", told)
    (mail,) = mails[1]
    (part,) = [part for part in mail.walk() if part.get_content_type() == "text/html"]
    html = part.get_payload(decode=True)
    assert (mail["Subject"], mail["To"], mail["From"]) == (subject, "ada@example.com", "airflow@example.com")
    anchor = f'<p><a href="{LINK}">{LINK}</a></p>'
    assert html == f"<p><b>{subject}</b></p><p>{escaped}</p><p>{advice}</p>{anchor}".encode()
    labels = ["slack slack_default orders", "slack_webhook slackwebhook_default"]
    labels += ["email smtp_default ada@example.com", f"webhook http_default {HOOK}"]
    assert notifying.remembered("notifier, attempts, sent_at IS NOT NULL") == [(label, 1, True) for label in labels]


@pytest.mark.full
def test_what_went_away_and_comes_back_is_sent_again(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK)
    other = ["failed", "stage", "SparkFailed: it failed"]
    notifying.met(FAILED, other, FAILED, ON_SUCCESS, ["on_success", "commit", None], FAILED, FAILED)
    subjects = [body["subject"] for _, body in hooks.received()]
    names = ("OffsetExpired", "SparkFailed", "OffsetExpired")
    assert subjects == [f"orders: task stage failed with {name}" for name in names]
    keys = [("stage OffsetExpired", True), ("stage SparkFailed", True), ("stage OffsetExpired", False)]
    assert notifying.remembered("key, ended_at IS NOT NULL") == keys


@pytest.mark.full
def test_only_what_an_entry_asks_for_is_sent(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK, "  on: [server_away]\n")
    away = "RegistryUnavailable: the registry did not answer"
    notifying.met(
        ["retried", "stage", "SparkFailed: once"], FAILED, ["retried", "stage", away], ["failed", "stage", away]
    )
    assert [body["cause"] for _, body in hooks.received()] == ["server_away"]


def test_a_server_that_is_away_is_told_once_and_while_airflow_tries_again(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK, "  on: [server_away]\n", "- webhook: {connection: http_default}\n", "  on: [run_failed]\n")
    kafka, postgres = "BrokerUnavailable: Kafka at k:9092 did not answer", "DatabaseUnavailable: Postgres is not there"
    notifying.met(
        ["retried", "stage", kafka],
        ["failed", "stage", kafka],
        ["failed", "commit", postgres],
        ["failed", "stage", kafka],
    )
    assert sorted((path, body["cause"], body["subject"]) for path, body in hooks.received()) == [
        ("/", "run_failed", "orders: task commit failed with DatabaseUnavailable"),
        ("/", "run_failed", "orders: task stage failed with BrokerUnavailable"),
        ("/hook", "server_away", "orders: Kafka is away"),
        ("/hook", "server_away", "orders: Postgres is away"),
    ]
    notifying.met(["on_success", "stage", None], ["retried", "stage", kafka])
    assert [body["subject"] for _, body in hooks.received()][4:] == ["orders: Kafka is away"]


def test_whoever_is_told_of_the_server_is_not_told_of_the_failure_too(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK)
    notifying.met(["failed", "stage", "BrokerUnavailable: Kafka at k:9092 did not answer"])
    assert [body["cause"] for _, body in hooks.received()] == ["server_away"]


def test_a_broker_that_does_not_say_whether_a_loss_is_ahead_is_a_cause(
    notifying: Notifying, hooks: Hooks, servers: Servers, topic_name: Callable[[], str]
) -> None:
    topic, extra = topic_name(), dict(servers.kafka.extra)
    create_topic(extra, topic, 1, 1)
    publish([Record(None, b'{"id": "a", "at": "2026-01-01T00:00:00Z", "state": "new"}')], extra, topic)
    notifying.write(WEBHOOK)
    notifying.file.write_text(notifying.file.read_text().replace("topic: orders", f"topic: {topic}"))
    assert len(list(ingest(parse_pipeline(notifying.file), Origin("test"), False, lambda _: None))) == 1
    away = Connection("", "kafka", extra={"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"})
    dead = {environment_name("kafka_default"): away.to_json(), "OFFSET_LEDGER_RETRY_SECONDS": "0"}
    for _ in range(2):
        notifying.met(["failed", "plan", "BrokerUnavailable: Kafka did not answer"], **dead)
    assert [body["subject"] for _, body in hooks.received()] == ["orders: Kafka is away"]
    notifying.met(["on_success", "plan", None])
    notifying.met(["on_success", "plan", None], **dead)
    assert [body["subject"] for _, body in hooks.received()] == ["orders: Kafka is away"] * 2


def test_a_notifier_that_fails_is_one_line_and_is_tried_on_the_next_occasion(
    notifying: Notifying, hooks: Hooks
) -> None:
    notifying.write(WEBHOOK)
    hooks.status = 500
    log = notifying.met(FAILED)
    (line,) = [line for line in log.splitlines() if "was not sent by" in line]
    assert line.startswith(
        "notification 'orders: task stage failed with OffsetExpired' was not sent by webhook http_default"
    )
    assert "500" in line
    assert line.endswith("the next occasion tries again")
    hooks.status = 200
    notifying.met(["on_success", "plan", None])
    assert notifying.remembered("attempts, sent_at IS NOT NULL, error") == [(2, True, None)]
    assert len(hooks.received()) == 2


@pytest.mark.full
def test_what_ends_before_it_could_be_sent_is_not_sent(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK)
    hooks.status = 500
    notifying.met(FAILED)
    hooks.status = 200
    notifying.met(ON_SUCCESS, ["on_success", "plan", None])
    assert len(hooks.received()) == 1


@pytest.mark.full
def test_a_process_that_dies_after_sending_lets_the_next_occasion_send_again(
    notifying: Notifying, hooks: Hooks
) -> None:
    notifying.write(WEBHOOK)
    assert notifying.meet(FAILED, **{VARIABLE: "notification_sent=kill"}).returncode == -signal.SIGKILL
    notifying.met(FAILED)
    assert len(hooks.received()) == 1  # who died may still be sending, as long as its claim lasts
    execute(notifying.postgres, "UPDATE offset_ledger.notification SET claimed_until = now() - interval '1 second'")
    notifying.met(FAILED, FAILED)
    assert [body["subject"] for _, body in hooks.received()] == ["orders: task stage failed with OffsetExpired"] * 2
    assert notifying.remembered("attempts, sent_at IS NOT NULL") == [(2, True)]


@pytest.mark.full
def test_a_server_that_never_answers_delays_no_longer_than_the_limit(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK)
    hooks.hanging.clear()
    command = [sys.executable, "-c", SEND, str(notifying.file)]
    environment = {**os.environ, **notifying.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.splitlines()[-1] == "no answer within 3 s"


@pytest.mark.full
def test_without_the_ledger_it_is_sent_and_not_remembered(notifying: Notifying, hooks: Hooks, servers: Servers) -> None:
    notifying.write(WEBHOOK)
    away = replace(servers.postgres, host="127.0.0.1", port=1)
    environment = {environment_name("postgres_default"): away.to_json(), "OFFSET_LEDGER_RETRY_SECONDS": "0"}
    log = notifying.met(FAILED, **environment)
    assert [body["cause"] for _, body in hooks.received()] == ["run_failed"]
    (line,) = [line for line in log.splitlines() if line.startswith("the ledger does not remember")]
    assert line.startswith("the ledger does not remember notifications of orders now: Postgres of connection")
    assert notifying.remembered("notifier") == []


def test_the_verb_tries_every_notifier_and_names_the_one_that_fails(notifying: Notifying, hooks: Hooks) -> None:
    notifying.write(WEBHOOK, "- webhook: {connection: absent}\n")
    command = [sys.executable, "-m", "offset_ledger_kit.cli", "notify", str(notifying.file)]
    environment = {**os.environ, **notifying.environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert [body["subject"] for _, body in hooks.received()] == ["orders: test notification"]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("offset-ledger: ConfigurationError")]
    assert line.startswith("offset-ledger: ConfigurationError: not sent by webhook absent: ")
    assert done.returncode == 1


def test_check_names_the_provider_that_is_missing(notifying: Notifying, capsys: pytest.CaptureFixture[str]) -> None:
    path = "airflow.providers.apprise.notifications.apprise.AppriseNotifier"
    notifying.write(WEBHOOK, f"- class: {path}\n  arguments: {{body: '{{{{ text }}}}'}}\n")
    assert main(["check", str(notifying.file)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"offset-ledger: ConfigurationError: pipeline orders: notify needs {path}, which is not installed; install "
        f"apache-airflow-providers-apprise, or remove the entry from {notifying.file}"
    ]


def test_check_names_each_class_that_cannot_notify(notifying: Notifying) -> None:
    (notifying.file.parent / "broken_notifier.py").write_text("raise ValueError('it broke')\n")
    module = "airflow.providers.http.notifications.http"
    wrong = {
        f"{module}.HtpNotifier": "which its module does not have",
        f"{module}.HttpHook": "which is no notifier: it does not extend airflow.sdk.BaseNotifier",
        "broken_notifier.Broken": "whose module cannot be imported (ValueError: it broke)",
    }
    notifying.write(WEBHOOK, *(f"- class: {path}\n" for path in wrong))
    command = [sys.executable, "-m", "offset_ledger_kit.cli", "check", str(notifying.file)]
    environment = {**os.environ, **notifying.environment, "PYTHONPATH": str(notifying.file.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    lines = [line for line in done.stderr.splitlines() if "notify names" in line]
    assert [line.removeprefix("offset-ledger: ConfigurationError: ") for line in lines] == [
        f"pipeline orders: notify names {path}, {why}; correct class in {notifying.file}" for path, why in wrong.items()
    ]
    assert done.returncode == 1


@pytest.mark.full
def test_a_class_that_is_no_notifier_is_not_called(notifying: Notifying, tmp_path: Path) -> None:
    made = tmp_path / "made"
    notifying.write(f"- class: subprocess.Popen\n  arguments: {{args: [touch, {made}]}}\n")
    done = notifying.meet(FAILED)
    assert "which is no notifier: it does not extend airflow.sdk.BaseNotifier" in done.stdout + done.stderr
    assert not made.exists()


@pytest.mark.full
def test_when_a_server_is_away_the_log_has_the_endpoint_and_no_header_of_the_connection(notifying: Notifying) -> None:
    notifying.write(WEBHOOK)
    token = {"Authorization": "Bearer secret-token"}
    away = Connection("http_default", "http", "127.0.0.1", free_ports(1)[0], extra=token)
    done = notifying.meet(FAILED, **{environment_name("http_default"): away.to_json()})
    log = done.stdout + done.stderr
    assert "Max retries exceeded with url: /hook " in log  # the provider's own line
    assert "secret-token" not in log
    ((error,),) = notifying.remembered("error")
    assert "secret-token" not in error
