# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module spank_plugin on real files, with stand-ins for srun and sbatch."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.spank_plugin import SpankError
from ansible_collections.hpcai.gpucluster.plugins.modules import spank_plugin

if t.TYPE_CHECKING:
    from pathlib import Path

# Loads what plugstack.conf beside its configuration names, as Slurm does; a plugin of one word is a broken one.
COMMAND = """\
#!/bin/sh
read -r required plugin arguments < "$(dirname "$SLURM_CONF")/plugstack.conf"
echo "$(basename "$0") $required $plugin $arguments" >> "$LOG"
grep -q works "$plugin" || { echo "$(basename "$0"): error: spank: $plugin: Incompatible plugin version" >&2; exit 1; }
echo "      --container-image=PATH"
"""


class Module:
    """What the code needs of AnsibleModule."""

    def __init__(self, directory: Path, check_mode: bool = False, **params: t.Any) -> None:
        self.directory = directory
        self.check_mode = check_mode
        self.tmpdir = str(directory)
        self.params = {
            "source": str(directory / "source.so"),
            "plugin": str(directory / "lib/plugin-2.so"),
            "arguments": ["runtime_path=/run/pyxis"],
            "shows": "--container-image",
            "obsolete": str(directory / "lib/plugin-*.so"),
            "state": "present",
            **params,
        }

    def get_bin_path(self, name: str) -> str | None:
        path = self.directory / name
        return str(path) if path.exists() else None


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Slurm, and a plugin that works on its way."""
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text(COMMAND, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "source.so").write_text("works", encoding="utf-8")
    return tmp_path


def bring(machine: Path, **params: t.Any) -> bool:
    """Run the module's present; return whether anything changed."""
    module = t.cast("t.Any", Module(machine, **params))
    dropin = machine / "plugstack.conf.d/pyxis.conf"
    found = dropin.read_text(encoding="utf-8") if dropin.exists() else ""
    return spank_plugin.present(module, dropin, found)[1]


def test_a_plugin_that_works_lands_once(machine: Path) -> None:
    assert bring(machine)
    assert (machine / "lib/plugin-2.so").read_text(encoding="utf-8") == "works"
    assert (machine / "plugstack.conf.d/pyxis.conf").read_text(encoding="utf-8") == (
        f"required {machine}/lib/plugin-2.so runtime_path=/run/pyxis\n"
    )
    assert not bring(machine)
    assert (machine / "log").read_text(encoding="utf-8").splitlines() == [
        f"srun required {machine}/source.so runtime_path=/run/pyxis",
        f"sbatch required {machine}/source.so runtime_path=/run/pyxis",
    ]


def test_a_broken_plugin_does_not_land(machine: Path) -> None:
    (machine / "source.so").write_text("broken", encoding="utf-8")

    with pytest.raises(SpankError, match=r"srun says: spank: .*Incompatible plugin version"):
        bring(machine)
    assert not (machine / "lib").exists()
    assert not (machine / "plugstack.conf.d").exists()


def test_another_plugin_under_the_same_name_is_tried_and_what_works_stays(machine: Path) -> None:
    bring(machine)
    (machine / "source.so").write_text("broken", encoding="utf-8")

    with pytest.raises(SpankError):
        bring(machine)
    assert (machine / "lib/plugin-2.so").read_text(encoding="utf-8") == "works"


def test_other_options_are_tried(machine: Path) -> None:
    bring(machine)

    assert bring(machine, arguments=["container_scope=job"])
    assert (machine / "log").read_text(encoding="utf-8").splitlines()[-1].endswith("container_scope=job")


def test_check_mode_changes_nothing_and_tells_what_is_broken(machine: Path) -> None:
    assert bring(machine, check_mode=True)
    assert not (machine / "plugstack.conf.d").exists()

    (machine / "source.so").write_text("broken", encoding="utf-8")
    with pytest.raises(SpankError):
        bring(machine, check_mode=True)


def test_check_mode_on_a_bare_machine_is_a_change(tmp_path: Path) -> None:
    assert bring(tmp_path, check_mode=True)


def test_without_slurm_nothing_can_be_tried(machine: Path) -> None:
    (machine / "sbatch").unlink()

    with pytest.raises(SpankError, match="there is no sbatch to try it with"):
        bring(machine)


def test_earlier_files_of_the_plugin_are_removed(machine: Path) -> None:
    bring(machine)
    (machine / "lib/plugin-1.so").write_text("works", encoding="utf-8")
    module = t.cast("t.Any", Module(machine))

    assert spank_plugin.remove_obsolete(module) == [f"{machine}/lib/plugin-1.so"]
    assert [path.name for path in (machine / "lib").iterdir()] == ["plugin-2.so"]


def test_a_plugin_is_taken_away(machine: Path) -> None:
    bring(machine)
    module = t.cast("t.Any", Module(machine, state="absent"))
    dropin = machine / "plugstack.conf.d/pyxis.conf"

    assert spank_plugin.absent(module, dropin, dropin.read_text(encoding="utf-8")) == ("", True)
    assert spank_plugin.remove_obsolete(module) == [f"{machine}/lib/plugin-2.so"]
    assert not dropin.exists()
    assert spank_plugin.absent(module, dropin, "") == ("", False)
