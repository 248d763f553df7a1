"""What of an environment a server or a process of Spark may have."""

from __future__ import annotations

import pytest

from offset_ledger.outside.connections import without_secrets


@pytest.mark.parametrize(
    "name",
    [
        "AIRFLOW_CONN_POSTGRES_DEFAULT", "AIRFLOW_VAR_SHOP", "AIRFLOW__CORE__FERNET_KEY", "PGPASSWORD",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN", "shop_api_key", "SHOP_CREDENTIALS",
    ],
)  # fmt: skip
def test_what_is_secret_by_its_name_is_left_out(name: str) -> None:
    assert without_secrets({name: "x", "SHOP": "y"}) == {"SHOP": "y"}


def test_a_url_with_a_password_is_left_out() -> None:
    kept = {"A": "https://shop.example.com/a:b@c", "B": "https://me@shop.example.com", "C": "sc://127.0.0.1:15002"}
    assert without_secrets({**kept, "SHOP": "postgresql://me:secret@db/shop"}) == kept


@pytest.mark.parametrize(
    "name",
    ["AIRFLOW_HOME", "AIRFLOW_CTX_DAG_ID", "PGPASSFILE", "PATH", "JAVA_HOME", "AWS_SECRET_ACCESS_KEY", "KRB5CCNAME"],
)
def test_what_is_needed_stays(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}
