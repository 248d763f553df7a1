"""Record a command as an animated picture of its terminal: ``make recording``.

    python -m docs_site.recording docs/pictures/demo.svg make demo

The picture is an SVG that a page shows without a script. It begins with the end of the output, the result; then
each line appears in its order, with waits shortened, and the terminal scrolls.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path

COLUMNS, ROWS = 104, 26
CHARACTER, LINE, MARGIN = 7.8, 18, 14  # pixels
LONGEST_WAIT = 0.5  # seconds of the picture between two lines
AT_THE_END = 8.0  # seconds of the picture with the whole output

Line = tuple[float, str]


def record(command: Sequence[str]) -> list[Line]:
    """Run the command; return each line of its output with the second at which it came, and show it too."""
    began = time.monotonic()
    lines: list[Line] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            lines.append((time.monotonic() - began, line.rstrip()))
    if process.returncode:
        raise SystemExit(process.returncode)
    return lines


def shown(lines: Sequence[Line], root: Path) -> list[Line]:
    """Return the lines with the seconds of the picture: no path of this machine, no password, no wait that bores."""
    picture, at, before = [], 0.0, 0.0
    for seconds, text in lines:
        at += min(max(seconds - before, 0.03), LONGEST_WAIT)
        before = seconds
        text = re.sub(r"(password )\S+", r"\1…", text.replace(f"{root}/", ""))
        picture.append((at, text if len(text) <= COLUMNS else text[: COLUMNS - 1] + "…"))
    return picture


def svg(command: str, lines: Sequence[Line]) -> str:
    """Return the picture of a terminal in which ``command`` prints the lines."""
    whole = lines[-1][0] + AT_THE_END
    texts = [(0.0, f"$ {command}"), *lines]
    steps = ["0% { transform: translateY(0) }"]
    drawn = []
    for number, (at, text) in enumerate(texts):
        share = 100 * at / whole
        y = MARGIN + LINE * (number + 1)
        kind = ' class="ok"' if text.startswith("ok ") else ""
        drawn.append(f'<text x="{MARGIN}" y="{y}" style="animation-name:l{number}"{kind}>{escape(text)}</text>')
        steps.append(
            f"@keyframes l{number} {{ 0%, {share:.2f}% {{ opacity: 0 }} {share + 0.01:.2f}%, 100% {{ opacity: 1 }} }}"
        )
        if number >= ROWS:
            steps[0] += f" {share:.2f}% {{ transform: translateY(-{LINE * (number - ROWS + 1)}px) }}"
    end = f"transform: translateY(-{LINE * max(len(texts) - ROWS, 0)}px)"
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), LINE * ROWS + 2 * MARGIN
    style = [
        "text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #d6deeb; white-space: pre; }",
        ".ok { fill: #7fdbca; }",
        f"text, g {{ animation: {whole:.1f}s step-end -{lines[-1][0] + 0.1:.1f}s infinite; }}",
        f"g {{ animation-name: scroll; {end}; }}",
        f"@keyframes scroll {{ {steps[0]} 100% {{ {end} }} }}",
        *steps[1:],
        "@media (prefers-reduced-motion: reduce) { text, g { animation: none !important; } }",
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        "<style>\n" + "\n".join(style) + "\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#011627"/>\n'
        f'<svg y="{MARGIN / 2}" width="{width}" height="{height - MARGIN}"><g>\n'
        + "\n".join(drawn)
        + "\n</g></svg>\n</svg>\n"
    )


if __name__ == "__main__":
    picture, *arguments = sys.argv[1:]
    recorded = shown(record(arguments), Path.cwd())
    Path(picture).write_text(svg(" ".join(arguments), recorded))
