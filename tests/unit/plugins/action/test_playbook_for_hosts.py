# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook for some hosts gets the options of this run, ends in time, and says which hosts failed."""

from __future__ import annotations

import signal
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.action import playbook_for_hosts as action
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, LIMITS, within

CLI: dict[str, t.Any] = {
    "inventory": ("/inv/a", "/inv/b"),
    "extra_vars": ("set=h100", "@secrets.yml"),
    "vault_password_files": ["/vault"],
    "remote_user": "azureuser",
    "private_key_file": "/key",
    "become_password_file": "/sudo",
    "forks": 20,
    "verbosity": 2,
    "diff": True,
    "become": True,
    "ask_pass": False,
}
RECAP = """
PLAY RECAP *****
gpu1                       : ok=30   changed=4    unreachable=0    failed=0    skipped=1    rescued=0    ignored=0
gpu2                       : ok=2    changed=0    unreachable=1    failed=0    skipped=0    rescued=0    ignored=0
"""


def test_the_other_run_gets_the_options_of_this_one() -> None:
    found = action.command(Path("/p/site.yml"), ["gpu1", "gpu2"], {"slurm_drained": ["gpu9"]}, CLI)

    assert found[:7] == [sys.executable, "-m", "ansible", "playbook", "/p/site.yml", "--limit", "gpu1,gpu2"]
    text = " ".join(found)
    for option in (
        "--inventory /inv/a --inventory /inv/b",
        "--extra-vars set=h100 --extra-vars @secrets.yml",
        "--vault-password-file /vault",
        "--user azureuser",
        "--private-key /key",
        "--become-password-file /sudo",
        "--forks 20",
        '--extra-vars {"slurm_drained": ["gpu9"]}',
        "--become --diff -vv",
    ):
        assert option in text


@pytest.mark.parametrize("prompt", ["ask_pass", "become_ask_pass", "ask_vault_pass"])
def test_a_prompt_is_refused_because_nobody_can_answer_it(prompt: str) -> None:
    with pytest.raises(action.PromptError, match="password-file"):
        action.command(Path("/p/site.yml"), ["gpu1"], {}, {**CLI, prompt: True})


def test_the_recap_names_hosts_that_failed() -> None:
    hosts = action.recap(RECAP)

    assert hosts["gpu1"] == {"changed": 4, "unreachable": 0, "failed": 0}
    assert action._failure("site", 4, hosts, 60) == (
        "site ended with status 4; gpu2 failed or did not answer; its output is above"
    )
    assert "killed; run it again" in action._failure("site", -signal.SIGKILL, {}, 60)


def test_each_line_is_printed_as_it_comes_and_without_colours() -> None:
    said: list[str] = []
    code, text = action._streamed(
        [sys.executable, "-c", "print('\\x1b[31mone\\x1b[0m'); print('two'); raise SystemExit(3)"], 30, said.append
    )

    assert (code, text) == (3, "one\ntwo\n")
    assert said[1] == "  | two"


def test_a_run_that_hangs_is_killed_with_its_children() -> None:
    with within("the command and its child"):
        for limit in LIMITS:
            code, text = action._streamed(
                ["sh", "-c", f"echo up; sleep {HANGS} & sleep {HANGS}"], limit, lambda _line: None
            )
            if text:
                break

    assert (code, text) == (-signal.SIGKILL, "up\n")
