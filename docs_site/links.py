"""Where a link of a page leads on the site: pages of docs/ stay, and files outside of it become pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.M | re.S)
PAGES = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
}
"""Pages of the repository outside of docs/, by their place on the site."""
SOURCES = "source"


def on_site(path: str) -> str:
    """The place on the site of a path of the repository."""
    if path == "docs/adr":
        return "adr/index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return PAGES.get(path) or f"{SOURCES}/{path.rstrip('/')}.md"


def rewritten(markdown: str, page: str, root: Path) -> str:
    """The text of a page of the repository as the site has it; ``page`` is its path there."""
    here = posixpath.dirname(on_site(page))

    def lead(match: re.Match[str]) -> str:
        target = inside(page, match[1], root)
        if target is None:
            return match[0]
        return posixpath.relpath(on_site(target), here or ".") + (match[2] or "")

    return outside_of_fences(markdown, lambda text: LINK.sub(lead, text))


def sources(pages: Mapping[str, str], root: Path) -> set[str]:
    """The paths that the pages link and that are no pages themselves: code, tests and folders of these."""
    linked = {target for page, text in pages.items() for target in links(text, page, root)}
    return {path for path in linked if not path.startswith("docs/") and path not in PAGES}


def links(markdown: str, page: str, root: Path) -> Iterator[str]:
    """The paths of the repository that a page links."""
    for match in LINK.finditer(FENCE.sub("", markdown)):
        if target := inside(page, match[1], root):
            yield target


def inside(page: str, link: str, root: Path) -> str | None:
    """The path in the repository that a link of a page names; None where it leads elsewhere."""
    if re.match(r"[a-z]+:", link):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if (root / path).exists() else None


def outside_of_fences(markdown: str, change: Callable[[str], str]) -> str:
    """The text with the change made everywhere but in blocks of code."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])
