"""What the ledger remembers of notifications, and that two processes never send the same one at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from offset_ledger.model.notices import Notice
from offset_ledger.pipeline_file.pipeline import Cause
from offset_ledger.postgres.ledger import notifications
from offset_ledger.postgres.ledger.database import Session, connect, rows, transaction
from offset_ledger.postgres.ledger.notifications import DueNotification
from tests.fixtures.servers import Servers

NUMBERS = count()
TO = "webhook hooks"


@pytest.fixture
def pipeline() -> str:
    return f"notified_{next(NUMBERS)}"


@pytest.fixture
def sessions(servers: Servers) -> Iterator[tuple[Session, Session]]:
    with connect(servers.postgres) as one, connect(servers.postgres) as other:
        yield one, other


def failure(pipeline: str, task: str) -> Notice:
    return Notice(pipeline, Cause.RUN_FAILED, task, f"{task} failed", ("why",), "link")


def see(session: Session, *notices: Notice) -> None:
    with transaction(session) as cursor:
        for notice in notices:
            notifications.record_seen(cursor, notice, TO)


def claim(session: Session, pipeline: str, seconds: float = 60) -> str | None:
    """The subject of what is due, if anything is."""
    with transaction(session) as cursor:
        due = notifications.claim(cursor, pipeline, TO, seconds)
    return due.subject if due else None


def test_what_one_is_claiming_another_neither_gets_nor_waits_for(
    sessions: tuple[Session, Session], pipeline: str
) -> None:
    one, other = sessions
    see(one, failure(pipeline, "stage"), failure(pipeline, "commit"))
    with transaction(one) as cursor:
        due = notifications.claim(cursor, pipeline, TO, 60)
        assert isinstance(due, DueNotification)
        assert due.subject == "stage failed"
        assert [claim(other, pipeline), claim(other, pipeline)] == ["commit failed", None]
    assert [claim(one, pipeline), claim(other, pipeline)] == [None, None]


def test_a_claim_that_has_run_out_is_anybodys(sessions: tuple[Session, Session], pipeline: str) -> None:
    one, other = sessions
    see(one, failure(pipeline, "stage"))
    assert [claim(one, pipeline, 0), claim(other, pipeline), claim(one, pipeline)] == ["stage failed"] * 2 + [None]


def test_of_eight_that_meet_the_same_at_once_one_sends_it(servers: Servers, pipeline: str) -> None:
    def meet(_: int) -> str | None:
        with connect(servers.postgres) as session:
            see(session, failure(pipeline, "stage"))
            return claim(session, pipeline)

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(meet, range(8)))
    assert sorted(filter(None, claimed)) == ["stage failed"]


def test_what_was_sent_keeps_its_text_and_is_seen_again(sessions: tuple[Session, Session], pipeline: str) -> None:
    one, _ = sessions
    see(one, failure(pipeline, "stage"))
    with transaction(one) as cursor:
        due = notifications.claim(cursor, pipeline, TO, 60)
        assert due
        notifications.attempted(cursor, due.notification_id, None)
    see(one, Notice(pipeline, Cause.RUN_FAILED, "stage", "another subject", ("another line",), "another link"))
    query = "SELECT subject, body, link, last_seen_at > sent_at FROM offset_ledger.notification WHERE pipeline = %s"
    assert [tuple(row) for row in rows(one, query, [pipeline])] == [("stage failed", "why", "link", True)]
    assert claim(one, pipeline) is None
