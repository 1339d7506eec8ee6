# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain technical English: one word for one thing, as in the documentation of Ansible and Slurm."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "docs", "roles", "playbooks", "plugins", "inventories", "scripts", "Makefile", "site.yml")
# Word that is not used, and the word that is.
WORDS = {
    r"folders?\b": "directory",
    r"\bcut off\b": "interrupted",
    r"\bmildest\b": "least disruptive",
    r"\b(leave|leaves|leaving|left) (it |them |what \w+ |this )?out\b": "skip",
    r"\bmachine that runs Ansible\b": "control node",
    r"\blines? of work\b": "parallel jobs",
    r"\bwhat is not there\b": "missing",
    r"\b(X11|forwarded|remote) windows\b": "X11 forwarding",
    r"\bfirst check run\b": "in check mode on a first run",
    r"\btouch(es|ed)? (a|any|no|another) machine": "contact a managed node",
    r"\bcleaned away\b|\bclean_machine\b": "uninstall",
    r"\btruth values?\b": "boolean",
}
BANNED = re.compile("|".join(WORDS), re.IGNORECASE)


def _files() -> list[str]:
    found: list[str] = []
    for place in PLACES:
        path = ROOT / place
        found += [str(file.relative_to(ROOT)) for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    return [name for name in found if (ROOT / name).is_file() and not re.search(r"\.(pyc|xml|png)$", name)]


def _banned(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"{number}: {match[0]}" for number, line in enumerate(lines, 1) for match in BANNED.finditer(line)]


def test_words_of_the_field_are_used() -> None:
    faults = {name: found for name in _files() if (found := _banned(name))}

    assert faults == {}


def test_each_word_is_found() -> None:
    said = "a folder was cut off; the mildest means; left out; the machine that runs Ansible; two lines of work"
    assert len(BANNED.findall(said)) == 6
