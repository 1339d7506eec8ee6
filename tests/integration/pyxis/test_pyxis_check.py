# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode reports the build of pyxis where the real run builds it, and downloads nothing."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path

CHECKSUM = f"sha256:{hashlib.sha256(b'source').hexdigest()}"
VARIABLES: dict[str, object] = {
    "ansible_connection": "local",
    "ansible_become": False,
    "ansible_python_interpreter": sys.executable,
    "pyxis_slurm_archive": "/var/cache/gpucluster/slurm.tar",
    "pyxis_source_url": "http://127.0.0.1:9/pyxis.tar.gz",
    "pyxis_source_checksum": CHECKSUM,
    "pyxis_when_unreachable": "skip",
}


def test_a_build_is_reported_where_it_can_be_seen_without_a_download(
    run: t.Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    differences: dict[str, dict[str, str]] = {
        "skips": {},
        "skips_with_a_wrong_source": {},
        "fails": {"pyxis_when_unreachable": "fail"},
        "has_a_file": {"pyxis_source_url": "/srv/pyxis.tar.gz"},
        "has_the_source": {},
        "has_the_build": {},
        "kept_the_source": {},
        "kept_the_build": {},
    }
    kept = f"kept/pyxis-0.24.0-{CHECKSUM[7:19]}.tar.gz"
    files = {
        "skips_with_a_wrong_source": ("source", b"other"),
        "has_the_source": ("source", b"source"),
        "has_the_build": ("build", b""),
        "kept_the_source": (kept, b"source"),
        "kept_the_build": ("kept/plugin.so", b""),
    }
    for host in differences:
        (tmp_path / host / "kept").mkdir(parents=True)
    for host, (name, content) in files.items():
        (tmp_path / host / name).write_bytes(content)
    role = {"name": "hpcai.gpucluster.pyxis", "tasks_from": "build"}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}
    playbook = tmp_path / "build.json"
    playbook.write_text(json.dumps([play]), encoding="utf-8")
    here = f"{tmp_path}/{{{{ inventory_hostname }}}}"
    paths = {"__pyxis_build": f"{here}/build", "__pyxis_source": f"{here}/source", "pyxis_cache": f"{here}/kept"}

    inventory = {"all": {"hosts": {host: VARIABLES | more for host, more in differences.items()}}}
    extra = {**paths, "__pyxis_archive": f"{here}/kept/plugin.so"}
    status, output = run(inventory, str(playbook), "--check", "-e", json.dumps(extra))

    assert status == 0, output
    changed = {host: int(count) for host, count in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", output, re.M)}
    assert changed == {
        "skips": 0,
        "skips_with_a_wrong_source": 0,
        "fails": 1,
        "has_a_file": 1,
        "has_the_source": 1,
        "has_the_build": 1,
        "kept_the_source": 1,
        "kept_the_build": 0,
    }
    unseen = re.findall(r"or skipped\s+if (\S+) cannot reach it", output)
    assert sorted(unseen) == ["skips", "skips_with_a_wrong_source"]
