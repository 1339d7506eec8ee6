#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let Slurm load a SPANK plugin, after it was tried."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_plugin
short_description: Let Slurm load a SPANK plugin, after it was tried
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - A plugin that Slurm cannot load, that was built for another release, or that does not take its options fails every
    job of a machine. So before it is named to Slurm, C(srun) and C(sbatch) of the machine load it from a configuration
    of their own. What they refuse does not land, and the plugin before it stays.
  - The plugin is C(required) in C(plugstack.conf). An optional one that fails would let a job run without what it was
    asked for, such as outside of its container.
  - C(plugstack.conf) of the cluster has to include the folder, with C(include /etc/slurm/plugstack.conf.d/*.conf).
  - slurmd reads its plugins when it starts. Restart it after a change; running jobs go on.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: A plugin that is not on the machine yet is not tried.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the plugin, which the file in O(directory) gets.
    type: str
    required: true
  state:
    description: Whether Slurm is to load it.
    type: str
    choices: [present, absent]
    default: present
  plugin:
    description: Path of the plugin. Required if O(state=present).
    type: path
  arguments:
    description: Options of the plugin, one word each.
    type: list
    elements: str
    default: []
  shows:
    description: Text that C(srun --help) and C(sbatch --help) show when the plugin works.
    type: str
    default: ""
  directory:
    description: Folder of the files that C(plugstack.conf) includes.
    type: path
    default: /etc/slurm/plugstack.conf.d
  obsolete:
    description:
      - Pattern of earlier files of the plugin, which are removed when Slurm no longer loads them.
      - O(plugin) is spared.
    type: path
"""

EXAMPLES = r"""
- name: Let Slurm load pyxis
  hpcai.gpucluster.spank_plugin:
    name: pyxis
    plugin: /usr/local/lib/slurm/spank_pyxis.so
    arguments: [runtime_path=/run/pyxis]
    shows: --container-image
  notify: Restart slurmd

- name: Let Slurm load it no more
  hpcai.gpucluster.spank_plugin:
    name: pyxis
    state: absent
"""

RETURN = r"""
line:
  description: The line that Slurm reads.
  returned: when O(state=present)
  type: str
  sample: required /usr/local/lib/slurm/spank_pyxis.so runtime_path=/run/pyxis
removed:
  description: Earlier files of the plugin that were removed.
  returned: success
  type: list
  elements: str
"""

import os
import tempfile
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils import _spank_plugin


def attempt(module: AnsibleModule, text: str) -> None:
    """Try the plugin on this machine; raises SpankError."""
    plugin = Path(module.params["plugin"])
    commands = [module.get_bin_path(name) for name in _spank_plugin.COMMANDS]
    if module.check_mode and (not plugin.exists() or not all(commands)):
        return
    missing = [name for name, path in zip(_spank_plugin.COMMANDS, commands) if not path]
    if missing:
        raise _spank_plugin.SpankError(
            f"{' and '.join(missing)} to try it with are not on the machine; install Slurm first"
        )
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        for name, content in _spank_plugin.files(text).items():
            Path(folder, name).write_text(content, encoding="utf-8")
        _spank_plugin.attempt(
            lambda args, environment: module.run_command(list(args), environ_update=dict(environment)),
            [str(path) for path in commands],
            str(Path(folder, "slurm.conf")),
            module.params["shows"],
        )


def write(module: AnsibleModule, path: Path, text: str | None) -> None:
    """Put the file in place at once, or remove it; raises OSError."""
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(name).chmod(0o644)
    module.atomic_move(name, str(path))


def obsolete(params: dict[str, t.Any]) -> list[str]:
    """Return the files of the plugin that Slurm loads no more."""
    spared = params["plugin"] if params["state"] == "present" else None
    pattern = Path(params["obsolete"] or "/")
    return sorted(str(path) for path in pattern.parent.glob(pattern.name or "-") if str(path) != spared)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "plugin": {"type": "path"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "shows": {"type": "str", "default": ""},
            "directory": {"type": "path", "default": "/etc/slurm/plugstack.conf.d"},
            "obsolete": {"type": "path"},
        },
        required_if=[("state", "present", ["plugin"])],
        supports_check_mode=True,
    )
    params = module.params
    path = Path(params["directory"], f"{params['name']}.conf")
    try:
        found = path.read_text(encoding="utf-8") if path.exists() else None
        wanted = _spank_plugin.line(params["plugin"], params["arguments"]) if params["state"] == "present" else None
        if wanted is not None and wanted != found:
            attempt(module, wanted)
        if wanted != found and not module.check_mode:
            write(module, path, wanted)
        removed = obsolete(params)
        for name in [] if module.check_mode else removed:
            Path(name).unlink()
    except _spank_plugin.SpankError as exc:
        module.fail_json(msg=f"Slurm would not take the plugin {params['name']}, and was not told of it: {exc}")
    except OSError as exc:
        module.fail_json(msg=f"{path}: {exc}")
    module.exit_json(
        changed=wanted != found or bool(removed),
        removed=removed,
        line=(wanted or "").strip(),
        diff={"before_header": str(path), "after_header": str(path), "before": found or "", "after": wanted or ""},
    )


if __name__ == "__main__":
    main()
