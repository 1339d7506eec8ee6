# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The custom data of the nodes: cloud-init that starts C(join.sh) until the node has joined.

Custom data is readable on the machine and through Azure, so it has no secret: the name of the controller and the path
of a share, which give a machine nothing that its address does not already give.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

_SCRIPT = Path(__file__).with_name("join.sh")
# azure-compute-docs, articles/virtual-machines/custom-data.md: 64 KiB of base64.
MAX_BYTES = 65535
_PROGRAM, _SETTINGS = "/usr/local/sbin/gpucluster-join", "/etc/default/gpucluster-join"
_UNIT = """[Unit]
Description=Join the cluster once
After=network-online.target cloud-final.service
Wants=network-online.target
ConditionPathExists=!/var/lib/gpucluster/joined

[Service]
Type=oneshot
EnvironmentFile=/etc/default/gpucluster-join
ExecStart=/usr/local/sbin/gpucluster-join
TimeoutStartSec=1800
Restart=on-failure
RestartSec=30

[Install]
WantedBy=multi-user.target
"""


def custom_data(head: str, directory: str) -> str:
    """Return the custom data of the nodes in base64; I(head) serves I(directory). ValueError if it is too large."""
    text = base64.b64encode(cloud_config(head, directory).encode()).decode()
    if len(text) > MAX_BYTES:
        raise ValueError(f"the custom data has {len(text)} bytes; Azure allows {MAX_BYTES}")
    return text


def cloud_config(head: str, directory: str) -> str:
    """Return the configuration for cloud-init. JSON is YAML, and needs no quoting of its own."""
    files = [
        _file(_PROGRAM, "0755", _SCRIPT.read_text(encoding="utf-8")),
        _file(_SETTINGS, "0644", f"JOIN_SERVER={head}\nJOIN_DIRECTORY={directory}\n"),
        _file("/etc/systemd/system/gpucluster-join.service", "0644", _UNIT),
    ]
    start = ["systemctl", "enable", "--now", "--no-block", "gpucluster-join.service"]
    config = {"write_files": files, "runcmd": [["systemctl", "daemon-reload"], start]}
    return "#cloud-config\n" + json.dumps(config, indent=1) + "\n"


def _file(path: str, mode: str, content: str) -> dict[str, str]:
    return {"path": path, "owner": "root:root", "permissions": mode, "content": content}
