# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host renders its own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

HOSTS = {"gpu1": {}, "gpu2": {}, "gpu3": {"size": "h200"}, "gpu4": {"title": "{{ inventory_hostname }}"}}
TEMPLATE = "#!/bin/sh\n{{ ansible_managed | comment }}\n{% for one in sizes %}\n{{ title }} {{ one }}\n{% endfor %}\n\n"


def play(folder: Path, hosts: dict[str, t.Any], variables: dict[str, t.Any], **of_play: t.Any) -> None:
    """Run a play on hosts that are this machine."""
    of_all = {"ansible_python_interpreter": sys.executable, **variables}
    (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": of_all}}), encoding="utf-8")
    plays = [{"hosts": "all", "gather_facts": False, "connection": "local", **of_play}]
    (folder / "play.json").write_text(json.dumps(plays), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.json"]

    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def writes(path: str, content: str) -> dict[str, t.Any]:
    """Return the task that writes a file as the user who runs the test."""
    files = [{"path": path, "content": content}]
    return {"hpcai.gpucluster.file_set": {"files": files, "owner": os.getuid(), "group": os.getgid()}}


def test_a_dictionary_is_read_by_a_variable_of_the_host(tmp_path: Path) -> None:
    # The name of a host is nowhere in the argument, so that one result could seem to serve all hosts.
    path = tmp_path / "nccl.conf"
    keep = {"ansible.builtin.copy": {"src": str(path), "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}"}}

    play(
        tmp_path,
        {"gpu1": {"rack": "r1"}, "gpu2": {"rack": "r2"}},
        {"nccl_settings": "{{ {'r1': {'NCCL_IB_HCA': 'mlx5_0'}, 'r2': {'NCCL_IB_HCA': 'mlx5_4'}}[rack] }}"},
        serial=1,
        tasks=[writes(str(path), "{{ nccl_settings.NCCL_IB_HCA }}\n"), keep],
    )

    assert (tmp_path / "gpu1").read_text(encoding="utf-8") == "mlx5_0\n"
    assert (tmp_path / "gpu2").read_text(encoding="utf-8") == "mlx5_4\n"


def test_a_source_that_changes_between_two_tasks_is_read_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("old", encoding="utf-8")
    write = writes(f"{tmp_path}/written", f"{{{{ lookup('ansible.builtin.file', '{source}') }}}}\n")

    change = {"ansible.builtin.copy": {"dest": str(source), "content": "new"}}
    play(tmp_path, {"gpu1": {}}, {}, tasks=[write, change, write])

    assert (tmp_path / "written").read_text(encoding="utf-8") == "new\n"


def test_each_host_gets_what_it_would_render_alone(tmp_path: Path) -> None:
    role = tmp_path / "roles/example"
    for folder in ("templates", "tasks", "vars", "defaults"):
        (role / folder).mkdir(parents=True)
    (role / "templates/a.j2").write_text(TEMPLATE, encoding="utf-8")
    content = "{{ lookup('ansible.builtin.template', 'a.j2') }}"
    files = [
        {"path": f"{tmp_path}/of-{{{{ inventory_hostname }}}}/{{{{ size }}}}.conf", "content": content, "mode": "0755"}
    ]
    tasks = [
        {"hpcai.gpucluster.file_set": {"files": "{{ files }}", "owner": os.getuid(), "group": os.getgid()}},
        {"ansible.builtin.copy": {"content": content, "dest": f"{tmp_path}/expected-{{{{ inventory_hostname }}}}"}},
    ]
    documents = {
        role / "tasks/main.yml": tasks,
        role / "vars/main.yml": {"files": files, "sizes": ["{{ size }}", "a"]},
        role / "defaults/main.yml": {"size": "h100", "title": "kind {{ size }}"},
    }
    for path, document in documents.items():
        path.write_text(json.dumps(document), encoding="utf-8")

    play(tmp_path, HOSTS, {}, roles=[{"role": "example"}])

    for host in HOSTS:
        size = HOSTS[host].get("size", "h100")
        expected = (tmp_path / f"expected-{host}").read_bytes()
        written = tmp_path / f"of-{host}" / f"{size}.conf"
        assert written.read_bytes() == expected
        assert written.stat().st_mode & 0o777 == 0o755
    assert b"gpu4" in (tmp_path / "of-gpu4/h100.conf").read_bytes()
    assert b"h200" in (tmp_path / "of-gpu3/h200.conf").read_bytes()
