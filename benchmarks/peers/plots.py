"""The plots of the results, as SVG; run in the peers' environment, which has matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from benchmarks.peers.contenders import CONTENDERS, LIMIT, OURS
from matplotlib.figure import Figure

_STYLE = {"svg.hashsalt": "peers", "svg.fonttype": "none", "font.size": 9}


def _colour(name: str) -> str:
    return "#2b6cb0" if name in OURS else "#a0aec0" if name == LIMIT else "#dd8452"


def _draw(axes: Any, trials: list[dict[str, Any]], size: int) -> None:
    rates: dict[str, list[float]] = {}
    for trial in trials:
        if not trial["error"]:
            rates.setdefault(trial["contender"], []).append(trial["records"] / trial["seconds"])
    shown = [each for each in reversed(CONTENDERS) if each.name in rates]
    wrong = {trial["contender"] for trial in trials if trial["wrong"] or trial["missing"] or trial["extra"]}
    middles = [median(rates[each.name]) for each in shown]
    spread = [
        [middle - min(rates[each.name]) for each, middle in zip(shown, middles, strict=True)],
        [max(rates[each.name]) - middle for each, middle in zip(shown, middles, strict=True)],
    ]
    names = [each.title + (" (wrong rows)" if each.name in wrong else "") for each in shown]
    axes.barh(
        names, middles, xerr=spread, color=[_colour(each.name) for each in shown], error_kw={"lw": 1, "capsize": 2}
    )
    axes.set_title(f"{size:,} records")
    axes.set_xlabel("records/s, median of the turns, with minimum and maximum")
    axes.xaxis.set_major_formatter("{x:,.0f}")


def main(results: Path, docs: Path) -> None:
    """A picture for each width and target, with a row for each size."""
    trials = json.loads(results.read_text())["trials"]
    for width, target in dict.fromkeys((trial["width"], trial["target"]) for trial in trials):
        chosen = [trial for trial in trials if (trial["width"], trial["target"]) == (width, target)]
        sizes = sorted({trial["records"] for trial in chosen})
        figure = Figure(figsize=(8, 3.2 * len(sizes)))
        rows = figure.subplots(len(sizes), 1, squeeze=False)
        for axes, size in zip(rows[:, 0], sizes, strict=True):
            _draw(axes, [trial for trial in chosen if trial["records"] == size], size)
        figure.suptitle(f"{width} records, {target} target")
        figure.tight_layout()
        picture = docs / "pictures" / f"peers-{width}-{target}.svg"
        picture.parent.mkdir(exist_ok=True)
        figure.savefig(picture, metadata={"Date": None})


if __name__ == "__main__":
    with mpl.rc_context(_STYLE):
        main(Path(sys.argv[1]), Path(sys.argv[2]))
