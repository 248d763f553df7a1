"""``python -m offset_ledger.cli``: the command line."""

import sys

from offset_ledger.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
