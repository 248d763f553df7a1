"""JSON with the line of each value; what YAML says is in test_pipeline_file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from offset_ledger.config import located
from offset_ledger.config.located import PlainLoader, Refused, nearest_line, read_file, read_json
from tests.examples import examples
from tests.paths import ROOT


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


def tree(node: yaml.Node, around: tuple[yaml.Node, ...] = ()) -> Any:
    """What a node says, with the line of each of its parts; of an alias of what is around it, how far that is."""
    if node in around:
        return around.index(node)
    line, around = node.start_mark.line, (node, *around)
    if isinstance(node, yaml.MappingNode):
        return node.tag, line, [(tree(key, around), tree(value, around)) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return node.tag, line, [tree(each, around) for each in node.value]
    return node.tag, line, node.value


def test_a_node_that_holds_itself_is_read(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text("record: &a\n  columns: [*a]\n")
    assert tree(read_file(path)[1]) == tree(PlainLoader(path.read_text()).get_single_node())


PAGE = (ROOT / "docs" / "pipeline-file.md").read_text()
FILES = [block.partition("```")[0] for block in PAGE.split("```yaml\n")[1:]]
FILES += [path.read_text() for path in sorted((ROOT / "dags" / "pipelines").glob("*.yaml"))]
PIECES = [*"\t\n :-?[]{},#&*!|>'\"%@`\\a~\r\ufeff", "\n  ", ": ", "- ", "&a ", "*a", "!!binary aGk=", "{}", "|\n"]


@examples(600)
@given(st.integers(0, 2**32))
def test_a_file_is_read_as_pyyaml_itself_reads_it(seed: int) -> None:
    """A part of a pipeline file of the documentation, with something inserted or missing."""
    random = Random(seed)
    lines = random.choice(FILES).splitlines(keepends=True)
    first = random.randrange(len(lines))
    text = "".join(lines[first : first + random.randint(1, 8)])
    for _ in range(random.randint(0, 3)):
        at = random.randint(0, len(text))
        text = text[:at] + random.choice([random.choice(PIECES), ""]) + text[at + random.choice([0, 0, 1]) :]
    try:
        expected = PlainLoader(text).get_single_node()
    except yaml.YAMLError:
        expected = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "orders.yaml")
        path.write_text(text, newline="")
        if expected is None or expected.tag == located.CORE + "null":
            with pytest.raises(Refused):
                read_file(path)
        else:
            _, node = read_file(path)
            assert tree(node) == tree(expected)
            assert node.start_mark.name == str(path)


def test_the_pipeline_files_of_the_checkout_are_read_by_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(located, "PlainLoader", None)
    for path in (ROOT / "dags" / "pipelines").glob("*.yaml"):
        assert isinstance(read_file(path)[1], yaml.MappingNode)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}"), ("- ", "")])
@pytest.mark.parametrize("levels", [40, 60, 900, 200_000])
def test_what_is_nested_deeply_is_read_or_refused(tmp_path: Path, opening: str, closing: str, levels: int) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(opening * levels + "x" + closing * levels)
    if levels > 100:
        with pytest.raises(Refused, match="nested too deeply"):
            read_file(path)
    else:
        assert tree(read_file(path)[1]) == tree(PlainLoader(path.read_text()).get_single_node())
