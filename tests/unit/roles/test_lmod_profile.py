# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has which modulefiles: root runs none that a user may have written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROLE = Path(__file__).parents[3] / "roles/lmod"


@pytest.mark.parametrize(
    ("uid", "paths", "expected"),
    [
        (2001, ["/shared/a", "/shared/b"], "/role:/shared/b:/shared/a"),
        (0, ["/shared/a", "/shared/b"], "/role"),
        (2001, [], "/role"),
    ],
)
def test_root_has_no_modulefiles_of_the_site(uid: int, paths: list[str], expected: str) -> None:
    loader = DataLoader()
    profile = loader.load_from_file(str(ROLE / "vars/main.yml"), trusted_as_template=True)["__lmod_profile"]
    templar = Templar(loader=loader, variables={"lmod_directory": "/role", "lmod_paths": paths})
    text = templar.template(trust_as_template(profile["content"]))
    script = f"id() {{ echo {uid}; }}\n{text}\nsh -c 'printf %s \"$LMOD_SITE_MODULEPATH\"'"
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, timeout=PATIENCE, check=True)

    assert done.stdout == expected
