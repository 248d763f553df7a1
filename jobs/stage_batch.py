"""spark-submit entry point of this checkout: stage one batch, by the package.

spark-submit puts this folder first on Python's path: nothing here may hide a module.
"""

from __future__ import annotations

import sys

from offset_ledger.steps.stage.submitted.stage_batch import main

if __name__ == "__main__":
    sys.exit(main())
