# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the pages name exists: files of the repository, other pages, and their headings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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

    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), target
        assert not anchor or anchor in _anchors(other), f"{target}{anchor}"
