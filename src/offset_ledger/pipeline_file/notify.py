"""The section ``notify`` of a pipeline file: the people and notifiers, and the causes to notify of."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import yaml

from offset_ledger.pipeline_file.keys import Key, Kind, Section, read_mapping, read_or_note, section
from offset_ledger.pipeline_file.located import Refused, Value, describe
from offset_ledger.pipeline_file.pipeline import Cause, Notifier, Notify
from offset_ledger.pipeline_file.spark import SECRET_PATTERN
from offset_ledger.pipeline_file.values import CONNECTION, choice, different, filled_text, matching, whole_number

_PROVIDERS = "airflow.providers"
_CLASS_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+$"
CLASS = matching(_CLASS_PATTERN, "the path of a class", "write its module and its name, with dots")
ADDRESS = matching(r"^[^\s@,]+@[^\s@,]+$", "an e-mail address", "write name@example.com")
ADDRESSES = different(ADDRESS, "the address ", "a list of addresses", "write [name@example.com]", minItems=1)
CAUSES = different(choice(Cause), "the cause ", "a list of causes", "write [batch_rejected, run_failed]", minItems=1)
HOURS = whole_number(8760)
_MAX_VALUES = 1_000
_WEBHOOK = {name: f"{{{{ {name} }}}}" for name in ("pipeline", "cause", "subject", "text", "link")}


def _slack(said: Section) -> Notifier:
    connection, channel = said.given.get("connection"), said.given.get("channel")
    arguments = {"slack_conn_id": connection, "channel": channel, "text": "{{ slack }}", "unfurl_links": False}
    return Notifier(f"{_PROVIDERS}.slack.notifications.slack.SlackNotifier", f"slack {connection} {channel}", arguments)


def _slack_webhook(said: Section) -> Notifier:
    connection = said.given.get("connection")
    path = f"{_PROVIDERS}.slack.notifications.slack_webhook.SlackWebhookNotifier"
    arguments = {"slack_webhook_conn_id": connection, "text": "{{ slack }}", "unfurl_links": False}
    return Notifier(path, f"slack_webhook {connection}", arguments)


def _email(said: Section) -> Notifier:
    connection, to = said.given.get("connection"), said.given.get("to") or ()
    message = {"subject": "{{ subject }}", "html_content": "{{ html }}"}
    arguments = {"smtp_conn_id": connection, "to": list(to), "from_email": said.given.get("from"), **message}
    path = f"{_PROVIDERS}.smtp.notifications.smtp.SmtpNotifier"
    return Notifier(path, f"email {connection} {', '.join(to)}", arguments)


def _webhook(said: Section) -> Notifier:
    connection, endpoint = said.given.get("connection"), said.given.get("endpoint")
    arguments = {"http_conn_id": connection, "endpoint": endpoint, "json": _WEBHOOK}
    path = f"{_PROVIDERS}.http.notifications.http.HttpNotifier"
    return Notifier(path, f"webhook {connection}{_marked(endpoint)}", arguments)


def _marked(said: object) -> str:
    """Return a mark that tells notifiers of one kind apart, without secrets."""
    return " " + sha256(repr(said).encode()).hexdigest()[:8] if said else ""


def _arguments(value: Value) -> Mapping[str, Any]:
    read_mapping(value, {"text": "{{ text }}"})
    pending: list[yaml.Node] = [value.node]
    left = _MAX_VALUES  # aliases written out
    while pending:
        node = pending.pop()
        left -= 1
        if isinstance(node, yaml.MappingNode):
            pending += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
        if left < len(pending):
            raise Refused(f"it has more than {_MAX_VALUES} keys and values, aliases written out", "write fewer")
    _check_secrets(value)
    try:
        made: dict[str, Any] = yaml.constructor.SafeConstructor().construct_document(value.node)
    except yaml.YAMLError:
        raise Refused("a value of it has a tag", "write texts, numbers, lists and mappings") from None
    return made


def _check_secrets(value: Value) -> None:
    for name, entry in value.entries().items():
        if re.search(SECRET_PATTERN, name):
            entry.note(Refused("this looks like a secret, and the file holds none", "put it in a connection"))
    for inner in (*value.entries().values(), *value.items()):
        _check_secrets(inner)


def _connection(example: str) -> Key:
    return Key(CONNECTION, "The id of an Airflow connection.", (example,))


SLACK: Kind[Notifier] = section(
    Notifier,
    "A message to a Slack channel, by Slack's API.",
    {
        "connection": _connection("slack_default"),
        "channel": Key(filled_text(), "The channel, by its name or id.", ("orders",)),
    },
    ("connection", "channel"),
    _slack,
)
SLACK_WEBHOOK: Kind[Notifier] = section(
    Notifier,
    "A message by an incoming webhook of Slack, which has its channel.",
    {"connection": _connection("slackwebhook_default")},
    ("connection",),
    _slack_webhook,
)
EMAIL: Kind[Notifier] = section(
    Notifier,
    "An e-mail by SMTP.",
    {
        "connection": _connection("smtp_default"),
        "to": Key(ADDRESSES, "Who gets it.", (["data-platform@example.com"],)),
        "from": Key(ADDRESS, "The sender; the connection's where absent.", ("airflow@example.com",)),
    },
    ("connection", "to"),
    _email,
)
WEBHOOK: Kind[Notifier] = section(
    Notifier,
    "A POST of JSON to a URL: pipeline, cause, subject, text and link.",
    {
        "connection": _connection("http_default"),
        "endpoint": Key(filled_text(), "What follows the connection's host.", ("alerts/offset-ledger",)),
    },
    ("connection",),
    _webhook,
)
_WAYS: Mapping[str, Kind[Any]] = {
    "slack": SLACK,
    "slack_webhook": SLACK_WEBHOOK,
    "email": EMAIL,
    "webhook": WEBHOOK,
    "class": CLASS,
}


def _entry(said: Section) -> Notify:
    named = [said.entries[way] for way in _WAYS if way in said.entries]
    if not named:
        raise Refused("no notifier is named", f"add one of {', '.join(_WAYS)}")
    for other in named[1:]:
        other.note(Refused(f"{named[0].where} is the notifier of this entry", "write an entry for each"))
    if "arguments" in said.entries and "class" not in said.entries:
        said.entries["arguments"].note(Refused("only a class has arguments", "drop them, or write class"))
    given = dict(said.given)
    arguments, ways = given.pop("arguments", {}), [given.pop(way) for way in _WAYS if way in given]
    notifier = ways[0] if ways else None
    if isinstance(notifier, str):
        notifier = Notifier(notifier, f"class {notifier}{_marked(arguments)}", arguments)
    return Notify(notifier or Notifier("", ""), **given)


ENTRY: Kind[Notify] = section(
    Notify,
    "A notifier of Airflow, and what it is used for.",
    {
        **{way: kind for way, kind in _WAYS.items() if way != "class"},
        "class": Key(
            CLASS, "Any other notifier, by its class.", (f"{_PROVIDERS}.apprise.notifications.apprise.AppriseNotifier",)
        ),
        "arguments": Key(
            Kind(_arguments, {"type": "object"}),
            "Arguments of the class; {{ subject }}, {{ text }}, {{ html }}, {{ link }}, {{ cause }} and {{ pipeline }} "
            "stand for what happened.",
            ({"title": "{{ subject }}", "body": "{{ text }}"},),
        ),
        "on": Key(CAUSES, "What to notify of; everything where absent.", (["batch_rejected", "run_failed"],), "causes"),
        "loss_ahead_hours": Key(HOURS, "How long before retention deletes unread records loss_ahead notifies."),
    },
    make=_entry,
    also={
        "oneOf": [{"required": [way]} for way in _WAYS],
        "dependentRequired": {"arguments": ["class"]},
        "examples": [{"slack": {"connection": "slack_default", "channel": "orders"}}],
    },
)


def _entries(value: Value) -> tuple[Notify, ...]:
    if not isinstance(value.node, yaml.SequenceNode):
        example = "write - slack: {connection: slack_default, channel: orders}"
        raise Refused(f"expected a list of notifiers, found {describe(value.node)}", example)
    return tuple(entry for item in value.items() for entry in read_or_note(ENTRY, item))


NOTIFY: Kind[tuple[Notify, ...]] = Kind(_entries, {"type": "array", "items": ENTRY.schema})
