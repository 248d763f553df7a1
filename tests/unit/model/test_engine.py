"""Which engine stages a batch, by a table of literals."""

from __future__ import annotations

import pytest

from offset_ledger.model.batch import FROM_QUARANTINE, Engine, EngineChoice, choose
from offset_ledger.pipeline_file.pipeline import Stage, StageEngine

AUTO, SPARK, PROCESS = StageEngine.AUTO, StageEngine.SPARK, StageEngine.PROCESS
MISSING = "Spark is not installed: pip install 'offset-ledger[spark]'"


@pytest.mark.parametrize(
    ("asked", "offsets", "can", "below", "expected"),
    [
        (AUTO, 9_999, True, 10_000, (Engine.PROCESS, "9,999 offsets, fewer than stage.process_below: 10,000")),
        (AUTO, 10_000, True, 10_000, (Engine.SPARK, "10,000 offsets, at least stage.process_below: 10,000")),
        (AUTO, 2_000_000, True, 10_000, (Engine.SPARK, "2,000,000 offsets, at least stage.process_below: 10,000")),
        (AUTO, 1, True, 1, (Engine.SPARK, "1 offset, at least stage.process_below: 1")),
        (AUTO, 1, True, 2, (Engine.PROCESS, "1 offset, fewer than stage.process_below: 2")),
        (AUTO, 1, False, 10_000, (Engine.PROCESS, "1 offset, fewer than stage.process_below: 10,000")),
        (AUTO, 2_000_000, False, 10_000, (Engine.PROCESS, MISSING)),
        (SPARK, 1, True, 10_000, (Engine.SPARK, "stage.engine: spark")),
        (SPARK, 1, False, 10_000, (Engine.SPARK, "stage.engine: spark")),
        (PROCESS, 2_000_000, True, 1, (Engine.PROCESS, "stage.engine: process")),
        (PROCESS, 2_000_000, False, 1, (Engine.PROCESS, "stage.engine: process")),
    ],
)
def test_the_engine_is_chosen_by_what_is_asked_for_and_by_the_offsets(
    asked: StageEngine, offsets: int, can: bool, below: int, expected: tuple[Engine, str]
) -> None:
    assert choose(asked, offsets, can, below) == EngineChoice(*expected)


def test_a_file_that_says_nothing_gives_a_batch_of_ten_thousand_offsets_to_spark() -> None:
    stage = Stage()
    engines = [choose(stage.engine, offsets, True, stage.process_below).engine for offsets in (9_999, 10_000)]
    assert engines == [Engine.PROCESS, Engine.SPARK]


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        (EngineChoice(Engine.SPARK, "stage.engine: spark"), "by Spark (stage.engine: spark)"),
        (FROM_QUARANTINE, "by this process (a redrive reads quarantine, not Kafka)"),
    ],
)
def test_a_choice_is_one_line(choice: EngineChoice, line: str) -> None:
    assert str(choice) == line
