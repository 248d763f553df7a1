"""What Spark forks its Python workers from, on a local master: pyspark's daemon, with all that a slice needs imported.

Spark ends workers that had nothing to do for a minute; the daemon stays, so a new worker is warm too.
"""

from __future__ import annotations

import gc

import pandas  # type: ignore[import-untyped]  # noqa: F401 - pyspark's worker imports it for each job
import psycopg2  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import offset_ledger.kafka.bulk_reader
import offset_ledger.stage.slices
import offset_ledger.stage.spark_reader  # noqa: F401
from offset_ledger.stage.same_code import code_of_this_process

if __name__ == "__main__":
    code_of_this_process()
    gc.collect()
    gc.freeze()  # so that the collections of a worker do not copy the pages it shares with this process
    manager()  # type: ignore[no-untyped-call]
