"""The tables of benchmarks/README.md, made of the results between two markers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.contenders import CONTENDERS, LIMIT, OURS
from benchmarks.peers.results import Results, Summary, summarise
from benchmarks.peers.workload import Target, Width, Workload
from tabulate import tabulate

BEGIN = "<!-- peers: begin; written by `make bench SIZE=N`, changes are overwritten -->"
END = "<!-- peers: end -->"
_TARGETS = {
    Target.EMPTY: "empty target",
    Target.HALF: "every second event in the target with an older state",
    Target.STALE: "every event in the target with a newer state",
}
_SERVER, _SESSION, _ = OURS
_TITLES = {each.name: each.title for each in CONTENDERS}
# Issue and page name the same aims: times the fastest peer whose answer is right.
_AIMS = {(_SERVER, 500_000): 2.2, (_SERVER, 2_000_000): 1.8, (_SESSION, 2_000_000): 1.3}


def write_page(results: Results, page: Path) -> None:
    """Replace what is between the markers."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    parts = [_section(results, workload) for workload in results.workloads()]
    page.write_text(f"{before}{BEGIN}\n\n{_plots(results)}{''.join(parts)}{END}{after}")


def _plots(results: Results) -> str:
    kinds = dict.fromkeys((w.width, w.target) for w in results.workloads())
    return "".join(
        f"![Records/s by contender and size: {width} records, {target} target]"
        f"(../docs/pictures/peers-{width}-{target}.svg)\n\n"
        for width, target in kinds
    )


def _section(results: Results, workload: Workload) -> str:
    found = [summarise(each.name, results.of(workload, each.name)) for each in CONTENDERS]
    summaries = [each for each in found if each is not None]
    width = "200 bytes" if workload.width is Width.NARROW else "2 KB"
    moments = sorted(t.at for t in results.trials.values() if t.workload == workload)
    loads = [t.load for t in results.trials.values() if t.workload == workload]
    measured = f"Measured from {moments[0]} to {moments[-1]}, load {min(loads):.1f} to {max(loads):.1f}."
    lines = "\n".join(f"- {line}" for line in _verdicts(workload, summaries))
    heading = f"### {workload.records:,} records of {width}, {_TARGETS[workload.target]}"
    return f"{heading}\n\n{_table(summaries)}\n\n{measured}\n\n{lines}\n\n"


def _table(summaries: list[Summary]) -> str:
    server = next((each.rate for each in summaries if each.contender == _SERVER and each.rates), None)
    headers = ["", "records/s, median", "lowest to highest", "× by Spark Connect", "cold records/s", "wrong rows"]
    rows = [_row(each, server) for each in sorted(summaries, key=lambda s: -s.rate if s.rates else 0)]
    right = ("left", *["right"] * (len(headers) - 1))
    return tabulate(rows, headers, tablefmt="pipe", colalign=right, disable_numparse=True)


def _row(summary: Summary, server: float | None) -> list[str]:
    title = _TITLES[summary.contender]
    if not summary.rates:
        return [title, "failed", *[""] * 4]
    middle = sorted(summary.cold_rates)[len(summary.cold_rates) // 2]
    return [
        title, f"{summary.rate:,.0f}", f"{min(summary.rates):,.0f}–{max(summary.rates):,.0f}",
        f"{summary.rate / server:.2f}" if server else "", f"{middle:,.0f}", f"{summary.wrong + summary.missing:,}",
    ]  # fmt: skip


def _verdicts(workload: Workload, summaries: list[Summary]) -> list[str]:
    """Who is faster, said plainly; the aims beside the figures; who failed or left another answer."""
    by_name = {each.contender: each for each in summaries if each.rates}
    ours = [by_name[name] for name in OURS if name in by_name]
    peers = [each for name, each in by_name.items() if name not in (*OURS, LIMIT)]
    lines = [*_beside_the_fastest(ours, peers, workload), *(line for each in ours for line in _faster(each, peers))]
    lines += [
        f"{_TITLES[each.contender]} left {each.wrong:,} rows in another state than the newest, and {each.missing:,} "
        "missing or too many."
        for each in by_name.values() if not each.right
    ]  # fmt: skip
    lines += [f"{_TITLES[each.contender]} failed: {each.failed[-300:]}" for each in summaries if not each.rates]
    return lines


def _beside_the_fastest(ours: list[Summary], peers: list[Summary], workload: Workload) -> list[str]:
    right = [each for each in peers if each.right]
    if not right or not ours:
        return []
    best = max(right, key=lambda each: each.rate)
    times = []
    for each in ours:
        aim = _AIMS.get((each.contender, workload.records))
        beside = f" (aim: at least {aim})" if aim else ""
        times.append(f"{_TITLES[each.contender]} {each.rate / best.rate:.2f}{beside}")
    title = _TITLES[best.contender]
    return [f"The fastest peer with the right answer is {title}. Times as fast: {'; '.join(times)}."]


def _faster(ours: Summary, peers: list[Summary]) -> list[str]:
    faster = [each for each in peers if each.rate > ours.rate]
    named = ", ".join(
        f"{_TITLES[each.contender]} ({each.rate / ours.rate:.2f} times{'' if each.right else ', with wrong rows'})"
        for each in sorted(faster, key=lambda each: -each.rate)
    )
    return [f"Faster than {_TITLES[ours.contender]}: {named}."] if faster else []
