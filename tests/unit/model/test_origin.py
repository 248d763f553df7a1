"""Who runs a step: the task of Airflow, the person that the environment names, or the login of the process."""

from __future__ import annotations

import os
import pwd
import socket

import pytest

from offset_ledger.model.batch import current_origin


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "AIRFLOW_CTX_DAG_ID"):
        monkeypatch.delenv(name, raising=False)


def test_the_person_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    assert current_origin().who == "grace"
    monkeypatch.setenv("USER", "ada")
    assert current_origin().who == "ada"


def test_else_the_login_and_its_machine() -> None:
    assert current_origin().who == f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert current_origin().who == f"uid 4000000@{socket.gethostname()}"
