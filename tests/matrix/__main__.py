"""Run the tier of tests of each component with each version of it, and write the support matrix."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from offset_ledger.errors import OffsetLedgerError
from tests.matrix.components import TESTS, Candidate, candidates
from tests.matrix.table import Row, replace_row
from tests.paths import ROOT

PAGE = ROOT / "docs/support.md"


def main() -> int:
    """Fill the table; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(TESTS), help="one component; the rows of the others stay")
    only = parser.parse_args().only
    chosen = [candidate for candidate in candidates() if only in (None, candidate.component)]
    for candidate in chosen:
        replace_row(PAGE, _row(candidate, "not run: the run ended before"))
    rows = []
    for candidate in chosen:
        rows.append(_row(candidate, _result(candidate)))
        print(candidate.component, candidate.version, rows[-1].result, flush=True)
        replace_row(PAGE, rows[-1])
    return int(any("failed" in row.result for row in rows))


def _row(candidate: Candidate, result: str) -> Row:
    return Row(candidate.component, candidate.version, datetime.now(UTC).date().isoformat(), result)


def _result(candidate: Candidate) -> str:
    try:
        python, environment = candidate.prepare(candidate.version)
    except subprocess.CalledProcessError as error:  # whose text has paths of this machine, and the page is public
        return f"not run: {Path(error.cmd[0]).name} {' '.join(error.cmd[1:3])} failed"
    except (OffsetLedgerError, OSError) as error:
        return f"not run: {' '.join(str(error).split())[:120]}"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-n2", "-q", f"--junitxml={report}", *TESTS[candidate.component]]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **environment}, check=False, capture_output=True, text=True
        )
        return _counted(report, done)


def _counted(report: Path, done: subprocess.CompletedProcess[str]) -> str:
    """``120 passed``, with what failed and was skipped; a run without a report failed as a whole."""
    if not report.exists():
        return f"failed: pytest ended with {done.returncode} and no report"
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    total, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    if failed or done.returncode:
        print(done.stdout[-3000:])
        return f"{total - skipped - failed} passed, {failed} failed"
    return f"{total - skipped} passed" + (f", {skipped} skipped" if skipped else "")


if __name__ == "__main__":
    raise SystemExit(main())
