"""Anchors of headings as GitHub makes them, so that a link leads to the same place on the site."""

from __future__ import annotations

import re


def slugify(heading: str, separator: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)
