# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Copy the pages of the repository to a directory for Sphinx, with a start page that lists all of them.

Usage: docs_pages.py DIRECTORY   (it has the collection's reference of antsibull-docs already, in collections/)
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
START = "index.md"
_LINK = re.compile(r"(\]\()((?!\w+:)[^)#\s]+)((?:#[^)]*)?\))")
# The theme shows the headings of a page itself, and puts an error into a page that lists them, too.
_CONTENTS = re.compile(r"^\.\. contents::\n(?:[ ]+:.*\n)+", re.MULTILINE)
_LISTED = re.compile(r"\]\(([a-z-]+\.md)\)")
_PROJECT = ("CONTRIBUTING.md", "CHANGELOG.md")


def pages(root: Path) -> list[str]:
    """Return the pages of the repository as relative paths, in the order of the lists on the start page."""
    contents = "docs/contents.md"
    guides = [contents, *(f"docs/{name}" for name in _LISTED.findall((root / contents).read_text(encoding="utf-8")))]
    others = sorted(str(page.relative_to(root)) for page in root.glob("docs/*.md"))
    roles = sorted(str(page.relative_to(root)) for page in root.glob("roles/*/README.md"))
    return ["README.md", *dict.fromkeys([*guides, *others]), *roles, *_PROJECT]


def rewritten(text: str, page: str, known: list[str], repository: str, root: Path) -> str:
    """Return a page with its links to other files of the repository as links to the repository."""

    def replaced(match: re.Match[str]) -> str:
        target = (root / page).parent.joinpath(match[2]).resolve()
        name = str(target.relative_to(root)) if target.is_relative_to(root) else ""
        if name in known or not name or not target.exists() or target.suffix == ".png":
            # Sphinx knows the start page by another name, and refuses what does not exist.
            return f"{match[1]}{match[2].replace('README.md', START) if name == 'README.md' else match[2]}{match[3]}"
        return f"{match[1]}{repository}/blob/main/{name}{match[3]}"

    return _LINK.sub(replaced, text)


def start(text: str, known: list[str]) -> str:
    """Return the start page with the tables of contents, which the theme shows beside each page."""
    parts = {
        "Guides": [page for page in known if page.startswith("docs/")],
        "Roles": [page for page in known if page.startswith("roles/")],
        "Reference": ["collections/hpcai/gpucluster/index"],
        "Project": list(_PROJECT),
    }
    trees = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""])
        for caption, names in parts.items()
    ]
    return "\n".join([text, *trees])


def main(directory: Path) -> None:
    """Write the pages and their images."""
    repository = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    known = pages(ROOT)
    for page in known:
        text = rewritten((ROOT / page).read_text(encoding="utf-8"), page, known, repository, ROOT)
        if page.startswith("roles/"):
            text += f"\n[Reference](../../collections/hpcai/gpucluster/{Path(page).parts[1]}_role.rst)\n"
        path = directory / (START if page == "README.md" else page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(start(text, known) if page == "README.md" else text, encoding="utf-8")
    for reference in directory.glob("collections/**/*.rst"):
        reference.write_text(_CONTENTS.sub("", reference.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", directory / "docs/images", dirs_exist_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
