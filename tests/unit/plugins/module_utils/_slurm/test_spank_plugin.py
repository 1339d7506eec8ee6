# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import spank_plugin

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What srun and sbatch of Slurm 24.11.5 printed.
HELP = "Options provided by plugins:\n      --container-image=PATH  [pyxis] the image\n"
REFUSED = """\
sbatch: error: plugin_load_from_file: dlopen(/tmp/x/g.so): /tmp/x/g.so: file too short
sbatch: error: spank: /tmp/x/g.so: Dlopen of plugin file failed
sbatch: error: spank: /tmp/x/c/plugstack.conf:1: Failed to load plugin /tmp/x/g.so. Aborting.
sbatch: error: Failed to initialize plugin stack
"""


class Slurm:
    """Answers by command, and notes the calls."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers = answers
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, args: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
        self.calls.append((list(args), dict(environment)))
        return self.answers[args[0]]


def test_a_plugin_is_required_so_that_no_job_goes_on_without_it() -> None:
    assert spank_plugin.line("/x.so", ["a=1", "b=2"]) == "required /x.so a=1 b=2\n"


@pytest.mark.parametrize("word", ["a b", "", "a#b", "a\nrequired /y.so", "\t"])
def test_words_that_would_change_the_line_are_refused(word: str) -> None:
    with pytest.raises(spank_plugin.SpankError):
        spank_plugin.line("/x.so", [word])


def test_both_commands_try_it_in_a_configuration_of_their_own() -> None:
    slurm = Slurm(srun=(0, HELP, ""), sbatch=(0, HELP, ""))

    spank_plugin.attempt(slurm, ["srun", "sbatch"], "/tmp/try/slurm.conf", "--container-image")

    assert slurm.calls == [
        (["srun", "--help"], {"SLURM_CONF": "/tmp/try/slurm.conf"}),
        (["sbatch", "--help"], {"SLURM_CONF": "/tmp/try/slurm.conf"}),
    ]


def test_what_slurm_refuses_is_told_in_its_words() -> None:
    slurm = Slurm(srun=(0, HELP, ""), sbatch=(1, "", REFUSED))

    with pytest.raises(spank_plugin.SpankError) as caught:
        spank_plugin.attempt(slurm, ["srun", "sbatch"], "/tmp/try/slurm.conf")

    assert str(caught.value) == (
        "sbatch says: plugin_load_from_file: dlopen(/tmp/x/g.so): /tmp/x/g.so: file too short; "
        "spank: /tmp/x/g.so: Dlopen of plugin file failed; "
        "spank: /tmp/x/c/plugstack.conf:1: Failed to load plugin /tmp/x/g.so. Aborting.; "
        "Failed to initialize plugin stack"
    )


def test_a_plugin_that_does_not_show_what_it_is_for_is_refused() -> None:
    slurm = Slurm(srun=(0, "Usage: srun", ""))

    with pytest.raises(spank_plugin.SpankError, match="srun --help does not show --container-image"):
        spank_plugin.attempt(slurm, ["srun"], "/tmp/try/slurm.conf", "--container-image")


def test_the_configuration_asks_no_daemon_and_loads_only_the_plugin() -> None:
    files = spank_plugin.files("required /x.so\n")

    assert files["plugstack.conf"] == "required /x.so\n"
    assert "AuthType=auth/none" in files["slurm.conf"]
