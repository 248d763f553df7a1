"""The section ``notify``: what each entry becomes, and its mistakes with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from offset_ledger.errors import PipelineFileError
from offset_ledger.pipeline_file.parse import parse_pipeline
from offset_ledger.pipeline_file.pipeline import Cause, Notifier, Notify

BASE = """\
pipeline: orders
source: {connection: kafka_default, topic: orders}
record: {event_id: $.id, publish_at: $.at, columns: {state: text}}
target: {connection: postgres_default, table: public.orders}
notify:
"""
PROVIDERS = "airflow.providers"
LINES_BEFORE = BASE.count("\n")


def parsed(tmp_path: Path, section: str) -> tuple[Notify, ...]:
    file = tmp_path / "orders.yaml"
    file.write_text(BASE + section)
    return parse_pipeline(file).notify


def test_a_slack_channel(tmp_path: Path) -> None:
    entry = "- slack: {connection: s, channel: '#orders'}\n  on: [run_failed, loss_ahead]\n  loss_ahead_hours: 48\n"
    arguments = {"slack_conn_id": "s", "channel": "#orders", "text": "{{ slack }}", "unfurl_links": False}
    notifier = Notifier(f"{PROVIDERS}.slack.notifications.slack.SlackNotifier", "slack s #orders", arguments)
    assert parsed(tmp_path, entry) == (Notify(notifier, (Cause.RUN_FAILED, Cause.LOSS_AHEAD), 48),)


def test_entries_without_causes_are_about_all_of_them(tmp_path: Path) -> None:
    entries = (
        "- slack_webhook: {connection: w}\n"
        "- email: {connection: m, to: [a@example.com, b@example.com]}\n"
        "- webhook: {connection: h, endpoint: hook}\n"
        "- class: alerts.Pager\n"
        "  arguments: {text: '{{ text }}', level: 3, teams: [a, true]}\n"
    )
    slack = {"slack_webhook_conn_id": "w", "text": "{{ slack }}", "unfurl_links": False}
    to = ["a@example.com", "b@example.com"]
    mail = {"smtp_conn_id": "m", "to": to, "from_email": None, "subject": "{{ subject }}", "html_content": "{{ html }}"}
    names = ("pipeline", "cause", "subject", "text", "link")
    http = {"http_conn_id": "h", "endpoint": "hook", "json": {name: f"{{{{ {name} }}}}" for name in names}}
    pager = {"text": "{{ text }}", "level": 3, "teams": ["a", True]}
    labels = [each.notifier.label for each in parsed(tmp_path, entries)[2:]]
    notifiers = (
        Notifier(f"{PROVIDERS}.slack.notifications.slack_webhook.SlackWebhookNotifier", "slack_webhook w", slack),
        Notifier(f"{PROVIDERS}.smtp.notifications.smtp.SmtpNotifier", "email m a@example.com, b@example.com", mail),
        Notifier(f"{PROVIDERS}.http.notifications.http.HttpNotifier", labels[0], http),
        Notifier("alerts.Pager", labels[1], pager),
    )
    assert parsed(tmp_path, entries) == tuple(Notify(each, tuple(Cause), 24) for each in notifiers)


def test_a_label_tells_notifiers_apart_and_has_no_argument(tmp_path: Path) -> None:
    endpoints = [f"- webhook: {{connection: h, endpoint: services/hunter{n}}}\n" for n in range(2)]
    classes = [f"- class: alerts.Pager\n  arguments: {{url: [hunter{n}]}}\n" for n in range(2)]
    entries = parsed(tmp_path, "".join([*endpoints, *classes]))
    labels = [each.notifier.label for each in entries]
    assert len(set(labels)) == 4
    assert [label.rpartition(" ")[0] for label in labels] == ["webhook h"] * 2 + ["class alerts.Pager"] * 2
    assert labels == [each.notifier.label for each in parsed(tmp_path, "".join([*endpoints, *classes]))]
    assert "hunter" not in "".join(labels) + repr(entries)


@pytest.mark.parametrize(
    ("section", "line", "mistake"),
    [
        ("- slack: {connection: s}\n", 1, "notify[0].slack.channel is missing; add it, for example channel: orders"),
        ("- slack_webhook: {connection: s}\n  webhook: {connection: h}\n", 2,
            "notify[0].webhook: notify[0].slack_webhook is the notifier of this entry; write an entry for each"),
        ("- on: [run_failed]\n", 1,
            "notify[0]: no notifier is named; add one of slack, slack_webhook, email, webhook, class"),
        ("- class: a.B\n  arguments: {api_token: x}\n", 2,
            "notify[0].arguments.api_token: this looks like a secret, and the file holds none; put it in a connection"),
        ("- class: a.B\n  arguments:\n    headers:\n    - {a: {api_token: x}}\n", 4,
            "notify[0].arguments.headers[0].a.api_token: this looks like a secret, and the file holds none; put it in "
            "a connection"),
        ("- class: a.B\n  arguments: {text: !!python/none x}\n", 2,
            "notify[0].arguments: a value of it has a tag; write texts, numbers, lists and mappings"),
        ("- class: a.B\n  arguments:\n    a0: &a0 [x]\n" + "".join(
            f"    a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)), 3,
            "notify[0].arguments: it has more than 1000 keys and values, aliases written out; write fewer"),
        ("- class: a.B\n  arguments: {a: &a [*a]}\n", 2,
            "notify[0].arguments: it has more than 1000 keys and values, aliases written out; write fewer"),
        ("- webhook: {connection: h}\n  arguments: {a: b}\n", 2,
            "notify[0].arguments: only a class has arguments; drop them, or write class"),
        ("- class: Pager\n", 1,
            "notify[0].class: 'Pager' is not the path of a class; write its module and its name, with dots"),
        ("- email: {connection: m, to: [ada]}\n", 1,
            "notify[0].email.to[0]: 'ada' is not an e-mail address; write name@example.com"),
        ("  slack: {connection: s, channel: c}\n", 1, "notify: expected a list of notifiers, found a mapping; "
            "write - slack: {connection: slack_default, channel: orders}"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_line(tmp_path: Path, section: str, line: int, mistake: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        parsed(tmp_path, section)
    assert refused.value.problems == (f"{tmp_path / 'orders.yaml'}:{LINES_BEFORE + line}: {mistake}",)
