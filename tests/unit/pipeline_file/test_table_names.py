"""Names of tables as SQL has them: in double quotes what needs them, and none longer than Postgres keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.pipeline_file.located import Refused
from offset_ledger.pipeline_file.names import cut_name, split_table, view_name
from offset_ledger.pipeline_file.pipeline import in_sql

NAME = st.text("aZ09_- .'\"[]$%é", min_size=1, max_size=12)


@given(NAME, NAME)
def test_a_name_in_sql_is_read_as_the_same_table(schema: str, table: str) -> None:
    assert split_table(in_sql(schema, table)) == (schema, table)
    assert split_table(in_sql(table)) == ("public", table)
    assert view_name(in_sql(table)) == table


@pytest.mark.parametrize("text", ["orders", '"orders"', "public.orders", 'public."orders"', '"public"."orders"'])
def test_quotes_that_no_name_needs_change_nothing(text: str) -> None:
    assert in_sql(*split_table(text)) == "public.orders"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Orders", """write '"Orders"', in double quotes as in SQL, or orders"""),
        ("shop.orderLines", """write '"orderLines"', in double quotes as in SQL, or orderlines"""),
        ("order-lines", """write '"order-lines"', in double quotes as in SQL"""),
        ('"a', """write orders, or '"Orders"', in double quotes as in SQL"""),
        ('""', "write at least one character, and none that is NUL"),
        ('a."b".c', "write schema.table; the database is the connection's"),
    ],
)
def test_a_hint_names_the_table_that_was_meant(text: str, right: str) -> None:
    with pytest.raises(Refused) as caught:
        split_table(text)
    assert caught.value.right == right


@given(st.text("aZé", max_size=70), st.text("aZé", max_size=70))
def test_a_name_that_is_cut_is_not_that_of_another_table(one: str, other: str) -> None:
    cut = cut_name(one, "_p20260101")
    assert cut.endswith("_p20260101")
    assert len(cut.encode()) <= 63
    assert (cut == cut_name(other, "_p20260101")) == (one == other)
