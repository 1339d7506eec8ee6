#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enable a SPANK plugin in Slurm after a test."""

from __future__ import annotations

DOCUMENTATION = r"""
module: spank_plugin
short_description: Enable a SPANK plugin in Slurm after a test
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - A plugin that Slurm cannot load, that was built for another release, or that refuses its options fails every job of
    a machine. So the module first loads it in C(srun) and C(sbatch) with a temporary configuration. If they refuse it,
    it is not enabled, and the previous plugin stays.
  - The plugin is C(required) in C(plugstack.conf). If an optional one fails, a job runs without the requested feature,
    for example outside of its container.
  - C(plugstack.conf) of the cluster must include the directory, with C(include /etc/slurm/plugstack.conf.d/*.conf).
  - slurmd reads its plugins when it starts. Restart it after a change; running jobs continue.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: A plugin that is not on the machine yet, as in a first run, is not tried.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the plugin and of its file in O(directory).
    type: str
    required: true
  state:
    description: Whether Slurm loads the plugin.
    type: str
    choices: [present, absent]
    default: present
  plugin:
    description:
      - Path from which Slurm loads the plugin. Required if O(state=present).
      - Use a path that changes with the plugin, so that a running slurmd with another plugin can be detected.
    type: path
  source:
    description:
      - A file on the machine that is copied to O(plugin). It is tested before it is copied.
      - Without it, O(plugin) must exist.
    type: path
  arguments:
    description: Options of the plugin, one per item.
    type: list
    elements: str
    default: []
  shows:
    description: String that C(srun --help) and C(sbatch --help) print when the plugin works.
    type: str
    default: ""
  directory:
    description: Directory of the files that C(plugstack.conf) includes.
    type: path
    default: /etc/slurm/plugstack.conf.d
  obsolete:
    description:
      - Pattern of earlier files of the plugin, which are removed after Slurm stops loading them.
      - O(plugin) is kept.
    type: path
"""

EXAMPLES = r"""
- name: Enable pyxis in Slurm
  hpcai.gpucluster.spank_plugin:
    name: pyxis
    source: /var/cache/site/spank_pyxis-0.24.0.so
    plugin: /usr/local/lib/slurm/spank_pyxis-0.24.0.so
    arguments: [runtime_path=/run/pyxis]
    shows: --container-image
  notify: Restart slurmd

- name: Disable pyxis in Slurm
  hpcai.gpucluster.spank_plugin:
    name: pyxis
    state: absent
"""

RETURN = r"""
line:
  description: The line in the configuration of Slurm.
  returned: when O(state=present)
  type: str
  sample: required /usr/local/lib/slurm/spank_pyxis-0.24.0.so runtime_path=/run/pyxis
removed:
  description: Earlier files of the plugin that were removed.
  returned: success
  type: list
  elements: str
"""

import filecmp
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import spank_plugin
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, whole_file


def attempt(module: AnsibleModule, plugin: str) -> None:
    """Load a plugin in Slurm of this machine from a temporary configuration; raises SpankError."""
    commands = [module.get_bin_path(name) for name in spank_plugin.COMMANDS]
    if module.check_mode and not (Path(plugin).exists() and all(commands)):
        return
    missing = [name for name, path in zip(spank_plugin.COMMANDS, commands) if not path]
    if missing:
        raise spank_plugin.SpankError(f"there is no {' and no '.join(missing)} to try it with; install Slurm first")
    run = bounded_run.feeding_runner(bounded_run.ASK)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as directory:
        for name, content in spank_plugin.files(spank_plugin.line(plugin, module.params["arguments"])).items():
            Path(directory, name).write_text(content, encoding="utf-8")
        spank_plugin.attempt(
            run,
            [str(path) for path in commands],
            str(Path(directory, "slurm.conf")),
            module.params["shows"],
        )


def is_copy(source: str | None, plugin: str) -> bool:
    """Return whether the plugin is equal to its source."""
    return not source or (Path(plugin).exists() and filecmp.cmp(source, plugin, shallow=False))


def put(path: Path, content: bytes) -> None:
    """Write a file atomically; raises OSError."""
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    whole_file.replace(str(path), content, 0o644)


def present(module: AnsibleModule, path: Path, found: str) -> tuple[str, bool]:
    """Test and enable the plugin; return the file's content and whether anything changed."""
    params = module.params
    source, plugin = params["source"], params["plugin"]
    wanted = spank_plugin.line(plugin, params["arguments"])
    if module.check_mode and source and not Path(source).exists():
        return wanted, True
    copied = is_copy(source, plugin)
    if copied and wanted == found:
        return wanted, False
    attempt(module, source or plugin)
    if not module.check_mode:
        if not copied:
            put(Path(plugin), Path(source).read_bytes())
        put(path, wanted.encode())
    return wanted, True


def absent(module: AnsibleModule, path: Path, found: str) -> tuple[str, bool]:
    """Disable the plugin."""
    if found and not module.check_mode:
        path.unlink()
    return "", bool(found)


def remove_obsolete(module: AnsibleModule) -> list[str]:
    """Remove the files of the plugin that Slurm no longer loads, and return them."""
    pattern = Path(module.params["obsolete"] or "/")
    spared = module.params["plugin"] if module.params["state"] == "present" else None
    found = [path for path in pattern.parent.glob(pattern.name or "-") if str(path) != spared]
    for path in [] if module.check_mode else found:
        path.unlink()
    return sorted(map(str, found))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "source": {"type": "path"},
            "plugin": {"type": "path"},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "shows": {"type": "str", "default": ""},
            "directory": {"type": "path", "default": "/etc/slurm/plugstack.conf.d"},
            "obsolete": {"type": "path"},
        },
        required_if=[("state", "present", ["plugin"])],
        supports_check_mode=True,
    )
    path = Path(module.params["directory"], f"{module.params['name']}.conf")
    try:
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        bring = present if module.params["state"] == "present" else absent
        wanted, changed = bring(module, path, found)
        removed = remove_obsolete(module)
    except spank_plugin.SpankError as exc:
        module.fail_json(msg=f"Slurm would not take the plugin {module.params['name']}, and was not told of it: {exc}")
    except OSError as exc:
        module.fail_json(msg=f"cannot bring the plugin {module.params['name']} to its state: {exc}")
    module.exit_json(
        changed=changed or bool(removed),
        removed=removed,
        line=wanted.strip(),
        diff={"before_header": str(path), "after_header": str(path), "before": found, "after": wanted},
    )


if __name__ == "__main__":
    main()
