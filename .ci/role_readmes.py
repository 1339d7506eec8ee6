# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Write the tables of entry points and inputs in the README of each role from its meta/argument_specs.yml.

Usage: role_readmes.py [ROLE...]   (without an argument: all roles)
"""

from __future__ import annotations

import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

ROLES = Path(__file__).parents[1] / "roles"
MARK = "<!-- The rest of this file is generated: .ci/role_readmes.py -->"
LONGEST = 60


def rendered(role: Path) -> str:
    """Return the README of a role with tables that fit its specifications."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    prose = (role / "README.md").read_text(encoding="utf-8").partition(MARK)[0].rstrip()
    return "\n".join([prose, "", MARK, "", *_tables(role.name, specs)]) + "\n"


def _tables(name: str, specs: dict[str, t.Any]) -> list[str]:
    options = {key: option for spec in specs.values() for key, option in (spec.get("options") or {}).items()}
    return [
        "## Entry points",
        "",
        "| entry point | purpose |",
        "|---|---|",
        *(f"| `{point}` | {_plain(spec['short_description'])} |" for point, spec in specs.items()),
        "",
        "## Inputs",
        "",
        f"Complete descriptions: `ansible-doc -t role hpcai.gpucluster.{name}`.",
        "",
        "| input | default | description |",
        "|---|---|---|",
        *(f"| `{key}` | {_default(option)} | {_sentence(option)} |" for key, option in options.items()),
    ]


def _default(option: dict[str, t.Any]) -> str:
    if option.get("required"):
        return "required"
    if "default" not in option:
        return "computed"
    text = json.dumps(option["default"]).replace("|", "\\|")
    return f"`{text}`" if len(text) <= LONGEST else "see `defaults/main.yml`"


def _sentence(option: dict[str, t.Any]) -> str:
    text = option["description"] if isinstance(option["description"], str) else option["description"][0]
    return _plain(re.split(r"(?<=\.) (?=[A-Z])", " ".join(text.split()))[0])


def _plain(text: str) -> str:
    """Return a text without the markup of Ansible's documentation."""
    text = re.sub(r"\b[MP]\(hpcai\.gpucluster\.(\w+)(?:#\w+)?\)", r"`\1`", text)
    return re.sub(r"\b[CEMOPV]\((?:ignore:)?((?:[^()]|\([^()]*\))*)\)", r"`\1`", text).replace("|", "\\|")


if __name__ == "__main__":
    for path in [ROLES / name for name in sys.argv[1:]] or sorted(filter(Path.is_dir, ROLES.iterdir())):
        (path / "README.md").write_text(rendered(path), encoding="utf-8")
