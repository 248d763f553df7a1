"""Hooks of MkDocs: the pages of the repository beside docs/, the generated pages, and links that lead to them."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from docs_site import generated, links

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
MERMAID = "assets/javascripts/mermaid.min.js"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what docs/ does not have."""
    from mkdocs.structure.files import File

    paths = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    texts = {path: (ROOT / path).read_text() for path in [*paths, *links.PAGES]}
    made = {
        **{place: texts[path] for path, place in links.PAGES.items()},
        **{links.on_site(path): generated.source(path, ROOT) for path in links.sources(texts, ROOT)},
        "reference/cli.md": generated.command_line(),
        "reference/python.md": generated.python_api(),
    }
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    # The site can be read without a network: the theme asks a public host for Mermaid where a page has not loaded it.
    mermaid = distribution("mermaidx").locate_file("mermaidx/assets/mermaid.js")
    files.append(File.generated(config, MERMAID, abs_src_path=str(mermaid)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to the repository lead to their pages on the site."""
    of_the_root = {place: path for path, place in links.PAGES.items()}
    place = page.file.src_uri
    if place.startswith("adr/"):
        page.meta["search"] = {"boost": 0.2}  # decisions come after the pages that say what is so today
    if place.startswith((f"{links.SOURCES}/", "reference/")):
        return markdown
    return links.rewritten(markdown, of_the_root.get(place, f"docs/{place}"), ROOT)


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Let a page that has a diagram load Mermaid, which is large."""
    from mkdocs.utils import get_relative_url

    if '<pre class="mermaid">' not in html:
        return html
    return f'{html}\n<script src="{get_relative_url(MERMAID, page.url)}"></script>'
