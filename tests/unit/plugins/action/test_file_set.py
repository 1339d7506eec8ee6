# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of equal hosts are rendered once, and are byte for byte what each host would render."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HOSTS = {"gpu1": {}, "gpu2": {}, "gpu3": {"size": "h200"}, "gpu4": {"title": "{{ inventory_hostname }}"}}
TEMPLATE = "#!/bin/sh\n{{ ansible_managed | comment }}\n{% for one in sizes %}\n{{ title }} {{ one }}\n{% endfor %}\n\n"


def test_each_host_gets_what_it_would_render_alone(tmp_path: Path) -> None:
    role = tmp_path / "roles/example"
    for folder in ("templates", "tasks", "vars", "defaults"):
        (role / folder).mkdir(parents=True)
    (role / "templates/a.j2").write_text(TEMPLATE, encoding="utf-8")
    content = "{{ lookup('ansible.builtin.template', 'a.j2') }}"
    counted = "{{ lookup('ansible.builtin.template', 'a.j2') ~ lookup('ansible.builtin.env', 'HOME') }}"
    made = {"path": "{{ place }}/{{ size }}.conf", "content": content, "mode": "0755"}
    files = [made, {"path": "{{ place }}/home.conf", "content": counted}]
    writes = {"files": "{{ files }}", "owner": os.getuid(), "group": os.getgid()}
    copied = {"content": content, "dest": f"{tmp_path}/expected-{{{{ inventory_hostname }}}}"}
    tasks = [
        {"hpcai.gpucluster.file_set": writes, "vars": {"place": str(tmp_path / "of-all")}, "diff": True},
        {"ansible.builtin.copy": copied},
        {
            "hpcai.gpucluster.file_set": writes,
            "vars": {"place": f"{tmp_path}/of-{{{{ inventory_hostname }}}}"},
        },
    ]
    documents = {
        role / "tasks/main.yml": tasks,
        role / "vars/main.yml": {"files": files, "sizes": ["{{ size }}", "a"]},
        role / "defaults/main.yml": {"size": "h100", "title": "kind {{ size }}"},
        tmp_path / "hosts.json": {"all": {"hosts": HOSTS, "vars": {"ansible_python_interpreter": sys.executable}}},
        tmp_path / "play.json": [
            {"hosts": "all", "gather_facts": False, "connection": "local", "roles": [{"role": "example"}]}
        ],
    }
    for path, document in documents.items():
        path.write_text(json.dumps(document), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.json"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    for host in HOSTS:
        size = HOSTS[host].get("size", "h100")
        expected = (tmp_path / f"expected-{host}").read_bytes()
        written = tmp_path / f"of-{host}" / f"{size}.conf"
        assert written.read_bytes() == expected
        assert written.stat().st_mode & 0o777 == 0o755
    assert b"gpu4" in (tmp_path / "of-gpu4/h100.conf").read_bytes()
    assert b"h200" in (tmp_path / "of-gpu3/h200.conf").read_bytes()
