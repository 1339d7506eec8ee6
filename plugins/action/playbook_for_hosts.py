# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module playbook_for_hosts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import typing as t
from pathlib import Path

from ansible import context
from ansible.plugins.action import ActionBase

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
# Options of the command line that the other run gets with their values.
_VALUES = {
    "remote_user": "--user",
    "private_key_file": "--private-key",
    "connection": "--connection",
    "become_method": "--become-method",
    "become_user": "--become-user",
    "forks": "--forks",
    "timeout": "--timeout",
    "ssh_common_args": "--ssh-common-args",
    "ssh_extra_args": "--ssh-extra-args",
    "scp_extra_args": "--scp-extra-args",
    "sftp_extra_args": "--sftp-extra-args",
}
_LISTS = {
    "inventory": "--inventory",
    "extra_vars": "--extra-vars",
    "vault_ids": "--vault-id",
    "vault_password_files": "--vault-password-file",
    "module_path": "--module-path",
}
_PROMPTS = {
    "ask_pass": "--connection-password-file",
    "become_ask_pass": "--become-password-file",
    "ask_vault_pass": "--vault-password-file",
}
_FILES = {
    "connection_password_file": "--connection-password-file",
    "become_password_file": "--become-password-file",
}
_RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class PromptError(Exception):
    """The other run would ask for a password; the message says what to use instead."""


def command(
    playbook: Path, hosts: Sequence[str], variables: Mapping[str, t.Any], cli: Mapping[str, t.Any]
) -> list[str]:
    """Return the command for a playbook and some hosts, with the options of this run."""
    for name, option in _PROMPTS.items():
        if cli.get(name):
            raise PromptError(f"a password prompt cannot be answered twice; use {option}")
    found = [sys.executable, "-m", "ansible", "playbook", str(playbook), "--limit", ",".join(hosts)]
    for name, option in {**_VALUES, **_FILES}.items():
        found += [option, str(cli[name])] if cli.get(name) else []
    for name, option in _LISTS.items():
        found += [part for value in cli.get(name) or () for part in (option, str(value))]
    found += ["--extra-vars", json.dumps(dict(variables))] if variables else []
    found += ["--become"] if cli.get("become") else []
    found += ["--diff"] if cli.get("diff") else []
    found += ["-" + "v" * int(cli["verbosity"])] if cli.get("verbosity") else []
    return found


def recap(text: str) -> dict[str, dict[str, int]]:
    """Return what the other run says of each host: changed, unreachable, failed."""
    found = {}
    for name, *numbers in _RECAP.findall(text):
        found[name] = dict(zip(("changed", "unreachable", "failed"), map(int, numbers)))
    return found


class ActionModule(ActionBase):
    """Run a playbook of this collection for some hosts, as ansible-playbook --limit does."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the recap of the other run; it fails if one host failed or did not answer."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {
            "playbook": {"type": "str", "required": True},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "variables": {"type": "dict", "default": {}},
            "seconds": {"type": "int", "default": 7200},
        }
        __, given = self.validate_argument_spec(argument_spec=spec)
        path = _PLAYBOOKS / f"{given['playbook']}.yml"
        try:
            args = command(path, given["hosts"], json.loads(json.dumps(given["variables"])), context.CLIARGS)
        except PromptError as exc:
            return {**result, "failed": True, "msg": str(exc)}
        if not path.is_file():
            return {**result, "failed": True, "msg": f"there is no playbook {path.name} in this collection"}
        result["command"] = args
        if self._task.check_mode or not given["hosts"]:
            return {**result, "changed": bool(given["hosts"]), "hosts": {}, "rc": 0}
        code, text = _streamed(args, given["seconds"], self._display.display)
        hosts = recap(text)
        result.update(rc=code, hosts=hosts, changed=any(one["changed"] for one in hosts.values()))
        if code != 0:
            result.update(failed=True, msg=_failure(given["playbook"], code, hosts, given["seconds"]))
        return result


def _failure(playbook: str, code: int, hosts: Mapping[str, Mapping[str, int]], seconds: int) -> str:
    bad = [name for name, numbers in hosts.items() if numbers["failed"] or numbers["unreachable"]]
    if code == -signal.SIGKILL:
        return f"{playbook} did not end within {seconds} s and was killed; run it again"
    where = f"; {', '.join(bad)} failed or did not answer" if bad else ""
    return f"{playbook} ended with status {code}{where}; its output is above"


def _streamed(args: Sequence[str], seconds: float, say: t.Callable[[str], None]) -> tuple[int, str]:
    """Run a command, print each line as it comes, and kill it with its children after some seconds."""
    lines = []
    with subprocess.Popen(
        args,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:

        def kill() -> None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(seconds, kill)
        timer.start()
        try:
            for line in process.stdout or ():
                lines.append(_COLOURS.sub("", line))
                say(f"  | {line.rstrip()}")
        except BaseException:
            kill()
            raise
        finally:
            timer.cancel()
    return process.returncode, "".join(lines)
