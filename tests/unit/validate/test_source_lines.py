"""Lines of JSON values."""

from __future__ import annotations

import json

import pytest

from offset_ledger.validate.source_lines import UnclearSource, line_of, parse


def test_every_value_has_the_line_it_begins_on() -> None:
    value, lines = parse('{\n\t"a": [\n    1,\n    {"b":\n"x\\/y"}\n  ]\n}')
    assert value == {"a": [1, {"b": "x/y"}]}
    assert lines == {(): 1, ("a",): 2, ("a", 0): 3, ("a", 1): 4, ("a", 1, "b"): 5}


def test_what_is_missing_has_the_line_of_what_is_around_it() -> None:
    _, lines = parse('{\n"a": {\n}}')
    assert line_of(lines, "a", "gone", "deeper") == 2


def test_a_key_that_stands_twice_is_refused_with_its_line() -> None:
    with pytest.raises(UnclearSource) as caught:
        parse('{"a": 1,\n"a": 2}')
    assert (caught.value.msg, caught.value.lineno) == ("key 'a' stands twice in one object", 2)


def test_a_key_apart_from_its_colon_is_refused_with_its_line() -> None:
    with pytest.raises(UnclearSource) as caught:
        parse('{"a": 1,\n"b"\n: 2}')
    assert (caught.value.msg, caught.value.lineno) == ("write each key and its colon on one line", 3)


def test_yaml_that_is_not_json_is_refused() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse("a: 1")
