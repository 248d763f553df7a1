"""JSON with the line of each value; what YAML says is in test_pipeline_file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from offset_ledger.pipeline_file.located import Refused, nearest_line, read_file, read_json


def test_every_value_has_the_line_it_begins_on() -> None:
    value, lines = read_json(b'{\n\t"a": [\n    1,\n    {"b":\n"x\\/y"}\n  ]\n}')
    assert value == {"a": [1, {"b": "x/y"}]}
    assert lines == {(): 1, ("a",): 2, ("a", 0): 3, ("a", 1): 4, ("a", 1, "b"): 5}


def test_what_is_missing_has_the_line_of_what_is_around_it() -> None:
    _, lines = read_json(b'{\n"a": {\n}}')
    assert nearest_line(lines, "a", "gone", "deeper") == 2


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b'{"a": 1,\n"a": 2}', 2, "key 'a' stands twice in one object; keep one of them"),
        (b'{"a": 1,\n"b"\n: 2}', 3, "a key stands apart from its colon; write each key and its colon on one line"),
        (b"a: 1", 1, "not valid JSON: Expecting value; correct the syntax"),
        (b'{\n"a": "\xe9"}', 2, "byte 0xe9 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(data: bytes, line: int, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_json(data)
    assert (caught.value.line, str(caught.value)) == (line, says)


def test_an_object_nested_too_deeply_is_refused() -> None:
    with pytest.raises(Refused, match="nested too deeply"):
        read_json(b"[" * 100_000)


def test_a_node_that_holds_itself_is_read(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("record: &a\n  columns: [*a]\n")
    ((_, record),) = read_file(path)[1].value
    ((_, columns),) = record.value
    assert columns.value == [record]


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
@pytest.mark.parametrize("levels", [40, 60, 900, 200_000])
def test_what_is_nested_deeply_is_read_or_refused(tmp_path: Path, opening: str, closing: str, levels: int) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(opening * levels + "x" + closing * levels)
    if levels > 100:
        with pytest.raises(Refused, match="nested too deeply"):
            read_file(path)
    else:
        assert isinstance(read_file(path)[1], yaml.Node)
