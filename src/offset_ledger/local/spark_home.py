"""The Spark that pyspark has in its package."""

from __future__ import annotations

from pathlib import Path


def spark_home() -> Path:
    """Its folder, as ``SPARK_HOME`` names it."""
    import pyspark

    return Path(pyspark.__file__).parent
