"""spark-submit entry point: stage one batch. Arguments: pipeline file, batch id, and where to write a failure."""

from __future__ import annotations

import sys

from offset_ledger.stage.submitted.stage_batch import main

if __name__ == "__main__":
    sys.exit(main())
