"""``python -m offset_ledger_kit.cli``: the command line."""

import sys

from offset_ledger_kit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
