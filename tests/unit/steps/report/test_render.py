"""Pages as files: complete or not there, whoever writes them at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from offset_ledger.steps.report.render import write


def test_writers_with_one_process_id_do_not_take_each_others_file(tmp_path: Path) -> None:
    """As those of two containers with one shared folder."""
    texts = [str(n) * 100_000 for n in range(4)]
    with ThreadPoolExecutor(len(texts)) as pool:
        done = [pool.submit(write, tmp_path / "1.html", text) for text in texts * 50]
        assert {each.result() for each in done} == {tmp_path / "1.html"}
    assert [path.name for path in tmp_path.iterdir()] == ["1.html"]
    assert (tmp_path / "1.html").read_text() in texts
