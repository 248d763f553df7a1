"""Stories of the table, told with the real code; and each fault of before, put back, makes one of them another."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from offset_ledger.operations.repair import prune
from offset_ledger.outside.connections import Connection
from offset_ledger.pipeline_file.pipeline import Pipeline
from offset_ledger.postgres.ledger.database import Cursor, named_sql
from offset_ledger.postgres.ledger.row_order import table_of
from offset_ledger.postgres.ledger.staging import StagingTables
from offset_ledger.postgres.table import change, conflicts
from offset_ledger.postgres.table.fit import column_groups
from offset_ledger.steps.commit import classes, merge
from offset_ledger.steps.commit import step as commit_step
from offset_ledger_kit.sandbox.stack import Stack
from tests.fixtures.servers import new_database
from tests.machine.bench import Bench, Divergence
from tests.machine.table_stories import STORIES, Story
from tests.model.rules import Defect

pytestmark = pytest.mark.minutes(1)
MONKEY = pytest.MonkeyPatch


@pytest.fixture
def database(stack: Stack, template_database: str) -> Iterator[Connection]:
    """By the superuser's socket, whose faults are wanted, and not logged."""
    logging.disable(logging.CRITICAL)
    with new_database(stack, template_database) as made:
        yield replace(stack.postgres.superuser(str(made.schema)), conn_id="postgres_default")
    logging.disable(logging.NOTSET)


def tell(database: Connection, story: Story) -> None:
    """Take the steps of the story.

    Raises:
        Divergence: the ledger is not as the model says.
    """
    world, *names = story
    with Bench(world, next(world.initial()), database).running() as bench:
        bench.follow(*names)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_story_of_the_table_is_one_of_the_code(database: Connection, story: Story) -> None:
    tell(database, story)


# -- faults that are put back ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Another text in a function of the module, or in a statement that the module reads by its name."""

    module: ModuleType
    name: str
    old: str
    new: str

    def __call__(self, monkeypatch: MONKEY) -> None:
        of_sql = "/" in self.name
        text = named_sql(self.name) if of_sql else inspect.getsource(getattr(self.module, self.name))
        assert self.old in text, f"{self.name} has no {self.old!r} any more: put the fault back in another way"
        text = text.replace(self.old, self.new)
        if of_sql:
            read = self.module.named_sql
            monkeypatch.setattr(self.module, "named_sql", lambda name: text if name == self.name else read(name))
        else:
            made: dict[str, Any] = {}
            exec(text, vars(self.module), made)
            monkeypatch.setattr(self.module, self.name, made[self.name])


def groups_by_name(monkeypatch: MONKEY) -> None:
    """A group of which the bookkeeping has a column already orders whatever columns the file has in it."""

    def known(cursor: Cursor, pipeline: Pipeline) -> dict[str, str]:
        kept = table_of(pipeline.bookkeeping).as_string(cursor)
        cursor.execute("SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s)", [kept])
        there = {row[0] for row in cursor.fetchall()}
        return column_groups(cursor, pipeline) | {c.name: c.group for c in pipeline.record.columns if c.group in there}

    monkeypatch.setattr(change, "column_groups", known)


def written_below_a_savepoint(monkeypatch: MONKEY) -> None:
    """A commit whose classification fails writes below a savepoint, and knows what it wrote by its transaction."""

    def merge_again(
        cursor: Cursor, pipeline: Pipeline, tables: StagingTables, staged_rows: dict[int, int], fill: bool = False
    ) -> Any:
        cursor.execute("SAVEPOINT merge")
        try:
            return merge.merge(cursor, pipeline, tables, staged_rows, fill)
        except psycopg2.OperationalError:
            cursor.execute("ROLLBACK TO SAVEPOINT merge")
        with pytest.MonkeyPatch.context() as with_room:
            with_room.setattr(classes, "named_sql", named_sql)
            counts = merge.merge(cursor, pipeline, tables, staged_rows, fill)
        just_written = sql.SQL("SELECT count(*) FROM {} WHERE xmin = pg_current_xact_id()::xid")
        (rows,) = cursor.execute(just_written.format(table_of(pipeline.bookkeeping))).one()
        if rows < sum(each.written for each in counts.values()):
            raise merge._violated(pipeline, tables, None, ())
        return counts

    monkeypatch.setattr(commit_step, "merge", merge_again)


def groups_by_comment(monkeypatch: MONKEY) -> None:
    """A comment of the bookkeeping says which columns are in which group."""

    def known(cursor: Cursor, pipeline: Pipeline) -> dict[str, str]:
        kept = table_of(pipeline.bookkeeping).as_string(cursor)
        (text,) = cursor.execute("SELECT obj_description(to_regclass(%s))", [kept]).one()
        return json.loads(text) if text else {}

    def keep(cursor: Cursor, pipeline: Pipeline, batch_id: int) -> None:
        keep_groups(cursor, pipeline, batch_id)
        groups = sql.Literal(json.dumps({column.name: column.group for column in pipeline.record.columns}))
        cursor.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table_of(pipeline.bookkeeping), groups))

    keep_groups = change._keep_groups
    monkeypatch.setattr(change, "column_groups", known)
    monkeypatch.setattr(change, "_keep_groups", keep)


def markers_by_age(monkeypatch: MONKEY) -> None:
    """A marker goes by its age and its own partition, whatever the others, quarantine and staging have."""
    oldest = "min((each.timestamp for each in first.values() if each), default=None)"
    Text(prune, "_checked_retention", oldest, "None")(monkeypatch)
    Text(prune, "_before_all_that_may_come", "if not batches and not records:", "if True:")(monkeypatch)


# The servers of the tests have no ICU, so no collation of theirs is nondeterministic: this pattern fails as one would.
_SHOWN = "concat('(', _path, ') = (', _shown, ')', _of_holder, _holder)"
_FAILS = "date_part('timezone', localtimestamp)::text"  # feature_not_supported
_PATTERN = f"CASE WHEN pg_collation_for({_SHOWN}) LIKE '%any_case' THEN {_FAILS} ELSE '[[:cntrl:]]+' END"
_COPY = 'whole | {own: sql.Literal(tables.batch_id) for copied, own in pipeline.target.copied if copied == "_batch_id"}'
_OTHER_KEY = "ROW({row_known})::record OPERATOR(pg_catalog.*<>) ROW({staged_key})::record"
PUT_BACK: dict[Defect, tuple[Callable[[MONKEY], None], tuple[str, ...]]] = {
    Defect.GROUPS_BY_NAME: (
        groups_by_name,
        (
            "a column that leaves its group has no order of before when it comes back",
            "a column that goes to another group keeps its newer value",
        ),
    ),
    Defect.USERS_ROW_IS_NONE: (
        Text(classes, "commit/classify", "NOT ({there})", "{known} IS NULL"),
        ("a row of before is the first", "a row of before is not deleted"),
    ),
    Defect.KEYS_BY_IMAGE: (
        Text(
            classes,
            "commit/find_wrong",
            "{group_miswritten})",
            f"{{group_miswritten}} OR s._class IN ('i', 'u', 'f') AND NOT s._deleted AND {_OTHER_KEY})",
        ),
        (
            "keys that are equal, with groups",
            "keys that are equal, with a trigger beside the bookkeeping",
            "keys that are equal, with a trigger",
        ),
    ),
    Defect.CLASSES_LOST: (written_below_a_savepoint, ("a batch that cannot be classified",)),
    Defect.DEFAULTS_UNSEEN: (
        Text(conflicts, "_image", 'elif row["filled"] and not row["unforeseen"]:', "elif False:"),
        ("a unique value where a default counts",),
    ),
    Defect.DELETES_HOLD_VALUES: (
        Text(conflicts, "_unique", "{} AND NOT _goes AS {}", "{} AS {}"),
        ("a delete beside the bookkeeping brings no value",),
    ),
    Defect.FREED_IS_TAKEN: (
        Text(conflicts, "conflicts/claims", "(_goes OR {waits} AND", "({waits} AND"),
        ("a delete beside the bookkeeping frees its value",),
    ),
    Defect.COPY_OF_ANOTHER_TYPE: (
        Text(classes, "_formats", "_differs(row, whole)", f"_differs(row, {_COPY})"),
        ("a copy of the batch id, with a trigger", "a copy of the batch id, with groups"),
    ),
    Defect.COLLATION_INHERITED: (
        Text(
            conflicts,
            "conflicts/insert_losers",
            f"{_SHOWN} COLLATE \"C\", '[[:cntrl:]]+'",
            f"{_SHOWN}, {_PATTERN}",
        ),
        ("values in columns whose collation is nondeterministic",),
    ),
    Defect.UNWRITTEN_IS_KEPT: (
        Text(
            change,
            "_keep_groups",
            "{known[name] for name, each in now.items() if each == group and name in known}",
            '{known.get(name, "") for name, each in now.items() if each == group}',
        ),
        (
            "a column that no commit has written takes what a late record gives",
            "a column that no commit has written is filled",
        ),
    ),
    Defect.GROUPS_BY_COMMENT: (groups_by_comment, ("groups are known without a comment",)),
    Defect.DELETES_FIRST: (
        Text(merge, "_write", "together and writes[place].of_rows and writes[place].exact", "False"),
        ("a child moves before its parent goes", "a child moves to a parent that comes with it"),
    ),
    Defect.LONE_GROUP_STOPS: (
        Text(classes, "_of_rows", "_alone(place), exact=False", "_alone(place)"),
        ("a group of a row that was deleted by hand",),
    ),
    Defect.APPENDED_AGAIN: (
        Text(classes, "append/read_before", "WHERE from_offset < until_offset GROUP BY", "WHERE false GROUP BY"),
        ("what was appended is not appended again", "what a replay appended ahead is not appended by a run"),
    ),
    Defect.MARKERS_BY_AGE: (
        markers_by_age,
        (
            "a delete marker that a record of another partition contradicts",
            "a delete marker that a quarantined record contradicts",
            "a delete marker that a dismissed record contradicts",
            "a delete marker that a staged record contradicts",
        ),
    ),
}
FOUND = [
    pytest.param(PUT_BACK[d][0], story, id=f"{d.name.lower()}-{story}") for d in PUT_BACK for story in PUT_BACK[d][1]
]


@pytest.mark.parametrize(("put_back", "story"), FOUND)
def test_a_fault_that_is_put_back_is_found(
    database: Connection, monkeypatch: MONKEY, put_back: Callable[[MONKEY], None], story: str
) -> None:
    put_back(monkeypatch)
    with pytest.raises(Divergence):
        tell(database, STORIES[story])
