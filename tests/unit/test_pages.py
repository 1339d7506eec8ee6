# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages name exists: files of the repository, other pages, and their headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("roles/*/README.md")])
PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
# Directories of the repository with which a path in a page begins.
_TOP = r"(?:plugins|roles|playbooks|molecule|tests|docs|inventories|scripts|\.ci|changelogs)"
_PATH = re.compile(rf"`({_TOP}/[A-Za-z0-9_./-]+?)/?`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")
_EXAMPLES = ("NAME", "VERSION", "DIRECTORY")


def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_exist(page: Path) -> None:
    found = _PATH.findall(page.read_text(encoding="utf-8"))
    named = {name for name in found if not any(word in name for word in _EXAMPLES)}

    expect_none(
        f"{place(page, f'`{name}')}: `{name}` does not exist: correct the path, or add the file"
        for name in sorted(named)
        if not (ROOT / name).exists()
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        other = (page.parent / target).resolve() if target else page
        where = place(page, f"]({target}{anchor})")
        assert other.exists(), f"{where}: {target} does not exist: correct the link, or add the file"
        known = not anchor or anchor in _anchors(other)
        assert known, f"{where}: {place(other)} has no heading {anchor}: correct the link, or add the heading"


def test_each_page_is_in_the_list_of_contents() -> None:
    listed = (ROOT / "docs/contents.md").read_text(encoding="utf-8").partition("\n## ")[0]

    expect_none(
        f"{place('docs/contents.md', '| page |')}, list: add the row  | [{page.stem}]({page.name}) | what it is |"
        for page in sorted((ROOT / "docs").glob("*.md"))
        if f"]({page.name})" not in listed and page.name != "contents.md"
    )


def test_each_playbook_is_named_in_a_page_or_is_a_part_of_another() -> None:
    pages = [page for page in PAGES if page.parent in (ROOT, ROOT / "docs")]
    callers = [*(ROOT / "playbooks").rglob("*"), *(ROOT / "scripts").rglob("*")]
    users = [path for path in callers if path.is_file()]
    texts = {path: path.read_text(encoding="utf-8") for path in [*pages, *users]}

    expect_none(
        f"{place('docs/contents.md', '| playbook |')}, table: add the row  | `{path.name}` | what it does |"
        for path in sorted((ROOT / "playbooks").glob("*.yml"))
        if not any(re.search(rf"\b{path.name}\b", text) for other, text in texts.items() if other != path)
    )
