"""Whether the Spark of this environment is one: pyspark and pyspark-client lay the same folder."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from offset_ledger.errors import SparkMismatch
from offset_ledger.extras import require


def check_spark() -> None:
    """Return if Spark is installed, and pyspark and pyspark-client, where both are, have one version.

    Raises:
        ConfigurationError: it is not installed.
        SparkMismatch: files of two versions are mixed.
    """
    require("spark", "a batch that Spark reads")
    whole, client = _installed("pyspark"), _installed("pyspark-client")
    if whole and client and whole != client:
        raise SparkMismatch(
            f"pyspark {whole} and pyspark-client {client} share one folder, so they have to be of one version; nothing "
            f"was staged; run pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}"
        )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
