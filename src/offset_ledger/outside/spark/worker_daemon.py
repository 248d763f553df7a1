"""What Spark forks its Python workers from, on a local master: pyspark's daemon, with all that a slice needs imported.

Spark ends workers that had nothing to do for a minute; the daemon stays, so a new worker is warm too.
"""

import gc
import sys
import sysconfig
from contextlib import suppress
from importlib import import_module

_FORMATS = tuple(f"offset_ledger.decoding.{name}.decoder" for name in ("avro", "json", "json_schema", "protobuf"))
_IMPORTED = (
    "offset_ledger.outside.spark.home",
    "offset_ledger.steps.stage.readers",
    "offset_ledger.steps.stage.slices",
    "offset_ledger.steps.stage.copy_rows",
    "offset_ledger.outside.kafka.bulk_reader",
    "offset_ledger.outside.schema_registry.client",
    *_FORMATS,
    "pandas",  # pyspark's worker imports it for each job
    "pyspark.worker",
)


def main() -> None:
    """Fork workers until Spark ends this process, which starts no thread and no client: a fork would not have them."""
    # Spark puts pyspark's zips first, which have no bytecode: to compile them takes half as long as all imports. Each
    # worker would read the directories of zips that an import has looked into.
    sys.path[:] = [each for each in sys.path if not each.startswith(f"{sysconfig.get_path('purelib')}/pyspark/")]
    sys.path_importer_cache.clear()
    for name in _IMPORTED:
        with suppress(ModuleNotFoundError):  # of an extra that is not installed
            import_module(name)
    from pyspark.daemon import manager

    from offset_ledger.outside.spark.same_code import code_of_this_process

    code_of_this_process()
    gc.collect()
    gc.freeze()  # so that the collections of a worker do not copy the pages it shares with this process
    manager()


if __name__ == "__main__":
    main()
