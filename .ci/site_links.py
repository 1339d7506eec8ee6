# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Check the internal links of a site: each file and each anchor must exist. It fetches nothing.

Usage: site_links.py DIRECTORY
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes with an address.
_ADDRESSES = ("href", "src")


class Page(HTMLParser):
    """The anchors of a page, and the addresses to which it refers."""

    def __init__(self, text: str) -> None:
        """Read a page of HTML."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect anchors and addresses of an element."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)
            elif value and name in _ADDRESSES:
                self.links.append(value)


def faults(site: Path) -> tuple[list[str], int]:
    """Return one line for each broken link, and how many internal links there are."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not _exists(target, unquote(parts.fragment), pages):
                found.append(f"{path.relative_to(site)}: broken link {link}")
    return found, count


def _exists(target: Path, anchor: str, pages: dict[Path, Page]) -> bool:
    """Return whether a file exists and has the anchor. An empty anchor and C(top) are the start of any page."""
    if not target.is_file():
        return False
    return anchor in ("", "top") or (target in pages and anchor in pages[target].anchors)


def main(site: Path) -> int:
    """Print the broken links, and return the exit status."""
    found, count = faults(site.resolve())
    print("\n".join([*found, f"{count} internal links, {len(found)} broken"]))
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
