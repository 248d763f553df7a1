"""pyarrow without pandas, which it imports with its first array wherever pandas is installed: 0.7 s of CPU.

Only for our own processes: without pandas, pyarrow does not recognise a Series.
"""

import sys
from collections.abc import Sequence
from types import ModuleType


class _NotNow:
    """A finder of modules that does not find pandas."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not needed here")


_ours = False


def this_process_is_ours() -> None:
    """Allow :func:`without_pandas` to act: this process is one of our own programs."""
    global _ours
    _ours = True


def without_pandas() -> None:
    """Make pyarrow's first array now without pandas, unless pandas is loaded or the process is not ours."""
    if not _ours or "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
