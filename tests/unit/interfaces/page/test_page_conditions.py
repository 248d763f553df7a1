"""What Airflow knows of a pipeline's DAG, beside the condition of the pipeline."""

from __future__ import annotations

import pytest

from offset_ledger.interfaces.page.answers import _standing
from offset_ledger.interfaces.page.rights import Rights
from offset_ledger.operations.status.pipeline import BrokerAnswer, Ledger, Level
from tests.fixtures.staged import a_pipeline
from tests.unit.operations.status.snapshots import AWAY, BEHIND, CAUGHT_UP, LAGGING, NOW, ROW

DAG = frozenset({"ingest_orders"})
WELL, LATE = BrokerAnswer(CAUGHT_UP), BrokerAnswer(LAGGING)


@pytest.mark.parametrize(
    ("topic", "rights", "level", "text"),
    [
        (WELL, Rights(), Level.GOOD, "up to date"),
        (WELL, Rights(paused=DAG), Level.PLAIN, "its DAG is paused; up to date"),
        (WELL, Rights(failed=DAG, paused=DAG), Level.WARN, "its last run failed; up to date"),
        (LATE, Rights(failed=DAG), Level.WARN, "its last run failed; behind"),
        (AWAY, Rights(failed=DAG, paused=DAG), Level.UNKNOWN, "Kafka does not answer"),
    ],
)
def test_a_dag_that_fails_or_is_paused_is_shown_where_nothing_worse_is_known(
    topic: BrokerAnswer, rights: Rights, level: Level, text: str
) -> None:
    condition = _standing(a_pipeline(), rights, Ledger({"orders": ROW}, {"orders": [BEHIND]}), topic, NOW).condition
    assert (condition.level, condition.text) == (level, text)
