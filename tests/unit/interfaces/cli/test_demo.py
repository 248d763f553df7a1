"""The demo's last words: how to look around, then the claims, then what comes next."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from offset_ledger.outside.spark.home import JavaRuntime
from offset_ledger_kit.cli.main import main
from offset_ledger_kit.demo import run as demo
from offset_ledger_kit.sandbox.layout import Ports
from offset_ledger_kit.sandbox.stack import Stack
from tests.paths import ROOT

CLAIMS = [demo.Claim("rows", 7, 7), demo.Claim("cancelled", 1, 1)]


def test_the_demo_prints_the_login_and_ends_with_its_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ports = Ports(kafka=(1, 2, 3), postgres=4, airflow=5, spark=6, registry=7, controller=8)
    stack = Stack(tmp_path, tmp_path, 1, True, ports, JavaRuntime(tmp_path, "17", "PATH"))
    proof = demo.DemoProof([], [], CLAIMS, {"publish": 3.0}, {"plan": 1.0}, stack)
    monkeypatch.setattr(demo, "run", lambda *_: proof)
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == ["", "every claim is true:", "ok   rows: 7", "ok   cancelled: 1"]
    password = json.loads((tmp_path / "airflow" / "passwords.json").read_text())["admin"]
    assert f"Airflow: http://127.0.0.1:5, user admin, password {password}" in lines


def test_make_demo_says_what_comes_next_after_its_last_claim() -> None:
    (recipe,) = re.findall(r"^demo: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    demo_itself, witness, after = recipe.splitlines()
    assert ("offset-ledger demo" in demo_itself, "tests.witness" in witness, "Next: " in after) == (True, True, True)
