# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages that Sphinx reads: links between pages stay, links to other files lead to the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program

ROOT = Path(__file__).parents[3]
docs_pages = ci_program("docs_pages")

REPOSITORY = "https://example.com/repository"


@pytest.mark.parametrize(
    ("page", "link", "wanted"),
    [
        ("docs/tour.md", "users.md#keys", "users.md#keys"),
        ("docs/tour.md", "../README.md#start", "../index.md#start"),
        ("docs/tour.md", "../roles/slurm/README.md", "../roles/slurm/README.md"),
        ("docs/tour.md", "images/status.png", "images/status.png"),
        ("docs/tour.md", "../inventories/azure", f"{REPOSITORY}/blob/main/inventories/azure"),
        ("README.md", "COPYING", f"{REPOSITORY}/blob/main/COPYING"),
        ("docs/tour.md", "https://example.com/a", "https://example.com/a"),
        ("docs/tour.md", "mailto:a@example.com", "mailto:a@example.com"),
        ("docs/tour.md", "#bundle", "#bundle"),
        ("docs/tour.md", "missing.md", "missing.md"),
        ("docs/tour.md", "../../../etc/passwd", "../../../etc/passwd"),
    ],
)
def test_links(page: str, link: str, wanted: str) -> None:
    text = docs_pages.rewritten(f"[text]({link}).", page, docs_pages.pages(ROOT), REPOSITORY, ROOT)

    assert text == f"[text]({wanted})."


def test_each_page_is_in_one_list_of_the_start_page() -> None:
    known = docs_pages.pages(ROOT)
    listed = docs_pages.start("# Start", known).splitlines()

    assert len(known) == len(set(known))
    assert [page for page in known[1:] if listed.count(page) != 1] == []
    # The order of the guides is the one of docs/contents.md, not of the alphabet.
    assert listed.index("docs/tour.md") < listed.index("docs/architecture.md")
