"""The process that forks Spark's Python workers, with everything imported that a slice needs: workers share it.

Spark starts it in place of ``pyspark.daemon`` (``spark.python.daemon.module``), whose workers each import it again.
"""

from __future__ import annotations

import gc
import runpy

from offset_ledger.stage import slices  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # workers collect garbage after each task: not among what never becomes any
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
