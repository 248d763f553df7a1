"""A page as it is shown."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The tags with their attributes, and the text, of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.raw = path.read_text()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(self.raw)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(" ".join(data.split()))

    @property
    def links(self) -> set[str | None]:
        found = {attributes.get("src") or attributes.get("href") for _, attributes in self.tags}
        return found - {None, "data:,"}

    @property
    def shown(self) -> str:
        return " ".join(text for text in self.text if text)
