"""A recorded command: its lines in their order, without paths of this machine, in a picture that a browser reads."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

from docs_site.recording import COLUMNS, LONGEST_WAIT, record, shown, svg


def test_each_line_appears_in_its_order_and_no_wait_is_long() -> None:
    lines = shown([(0.0, "first"), (60.0, "/home/me/project/.local <&>"), (60.0, "x" * 500)], Path("/home/me/project"))
    assert [text for _, text in lines] == ["first", ".local <&>", "x" * (COLUMNS - 1) + "…"]
    times = [at for at, _ in lines]
    assert times == sorted(times)
    assert times[-1] < 2 * LONGEST_WAIT


def test_a_password_stays_here() -> None:
    (line,) = shown([(0.0, "Airflow: http://127.0.0.1:8080, user admin, password aB-3_x")], Path("/project"))
    assert line[1] == "Airflow: http://127.0.0.1:8080, user admin, password …"


def test_the_loop_begins_with_the_result() -> None:
    picture = svg("make demo", [(n / 10, f"ok line {n}") for n in range(1, 41)])
    whole, delay = map(float, re.findall(r"animation: ([\d.]+)s step-end -([\d.]+)s infinite", picture)[0])
    shares = [float(share) for share in re.findall(r"0%, ([\d.]+)% \{ opacity: 0", picture)]
    assert max(shares) / 100 * whole < delay < whole - 5  # every line is there, and stays


def test_the_picture_has_every_line_and_scrolls_to_the_last() -> None:
    picture = svg("make demo", [(n / 10, f"ok line {n} <&>") for n in range(1, 41)])
    root = ElementTree.fromstring(picture)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["$ make demo", *(f"ok line {n} <&>" for n in range(1, 41))]
    shares = [float(share) for share in re.findall(r"0%, ([\d.]+)% \{ opacity: 0", picture)]
    assert shares == sorted(shares)
    assert "100% { transform: translateY(-270px) }" in picture  # 41 lines in 26 rows of 18 pixels


def test_a_command_is_recorded_as_it_prints() -> None:
    lines = record([sys.executable, "-c", "print('a'); print('b')"])
    assert [text for _, text in lines] == ["a", "b"]
