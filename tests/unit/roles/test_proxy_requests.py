# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real programs reach a server through a real proxy: downloads of tasks, and apt with the file of the role base."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

CHECKOUT = Path(__file__).parents[3]


class Proxy(http.server.BaseHTTPRequestHandler):
    """Answers for every server, and records which URL was requested with which login."""

    seen: t.ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        """Answer with a text."""
        self.seen.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"by proxy")

    def log_message(self, *_words: t.Any) -> None:
        """Print nothing."""


@pytest.fixture
def proxy() -> t.Iterator[str]:
    """Run a proxy on the loopback address and yield its host and port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    Proxy.seen.clear()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_a_download_of_a_task_goes_through_the_proxy(tmp_path: Path, proxy: str) -> None:
    task = {
        "ansible.builtin.get_url": {"url": "http://mirror.invalid/file", "dest": f"{tmp_path}/file", "mode": "0644"}
    }
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(CHECKOUT / "playbooks/vars/cluster.yml")],
        "vars": {"ansible_python_interpreter": sys.executable},
        "environment": "{{ gpucluster_environment }}",
        "tasks": [task],
    }
    (tmp_path / "play.json").write_text(json.dumps([play]), encoding="utf-8")
    given = json.dumps({"gpucluster_proxy": {"http": f"http://me:secret@{proxy}"}})

    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            "localhost,",
            "-e",
            given,
            str(tmp_path / "play.json"),
        ],
        env={**os.environ, "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "file").read_text(encoding="utf-8") == "by proxy"
    assert [url for url, login in Proxy.seen if login.startswith("Basic ")] == ["http://mirror.invalid/file"]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_apt_goes_through_the_proxy_but_not_to_hosts_that_are_excepted(tmp_path: Path, proxy: str) -> None:
    (tmp_path / "templates").symlink_to(CHECKOUT / "roles/base/templates")
    given = {"http": f"http://{proxy}", "no_proxy": ["direct.invalid"]}
    case = {"gpucluster_proxy": given, "ansible_managed": "x"}
    content = "__base_files | selectattr('path', 'search', 'proxy') | map(attribute='content') | first"
    text = role_values(tmp_path, "base", content, {"machine": case})["machine"]
    for name in ("parts", "lists/partial", "sources"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "parts/98-gpucluster-proxy").write_text(text, encoding="utf-8")
    servers = ("mirror.invalid", "direct.invalid")
    lines = "".join(f"deb [trusted=yes] http://{server}/debian ./\n" for server in servers)
    (tmp_path / "sources.list").write_text(lines, encoding="utf-8")
    options = {
        "Dir::Etc::Parts": "parts",
        "Dir::Etc::SourceList": "sources.list",
        "Dir::Etc::SourceParts": "sources",
        "Dir::State::lists": "lists",
        "Dir::Cache": ".",
    }
    main = "".join(f'{name} "{tmp_path / path}";\n' for name, path in options.items())
    (tmp_path / "apt.conf").write_text(main + 'APT::Sandbox::User "";\nAcquire::Retries "0";\n', encoding="utf-8")

    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    subprocess.run(
        ["apt-get", "update"],
        env={**environment, "APT_CONFIG": str(tmp_path / "apt.conf")},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )

    assert "http://mirror.invalid/debian/./InRelease" in {url for url, _login in Proxy.seen}
    assert not [url for url, _login in Proxy.seen if "direct.invalid" in url]
