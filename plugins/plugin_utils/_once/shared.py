# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Evaluate an argument of a task once for all hosts with equal variables.

Each task on each host is a process of its own, so the results are in the temporary directory of the run, which only
this user can read and which Ansible removes at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import tempfile
import time
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleError, AnsibleValueOmittedError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._once import keys

if t.TYPE_CHECKING:
    from collections.abc import Callable

# For the process that evaluates first; then each evaluates for itself.
WAIT_SECONDS = 30
_ONE_NAME = re.compile(r"\{\{ (\w+) \}\}$")


class EvaluatedOnce:
    """Base of actions whose arguments are evaluated once for equal hosts; without ansible-core's hook, on each."""

    @classmethod
    def finalize_task_arg(cls, _name: str, value: t.Any, templar: t.Any, *_context: t.Any) -> t.Any:
        """Return the value of an argument, as ansible-core would."""
        return evaluated(value, templar.available_variables, templar.template, directory())


def directory() -> Path:
    """Return the directory of the run for shared results."""
    path = Path(constants.DEFAULT_LOCAL_TMP, "gpucluster-once")  # type: ignore[attr-defined]
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def evaluated(value: t.Any, variables: t.Any, evaluate: Callable[[t.Any], t.Any], store: Path) -> t.Any:
    """
    Return the result of a value with templates, from a host with equal variables if there was one.

    Of a list in which something has the name of the host, the other items are shared.
    """
    try:
        key = keys.key(value, variables, evaluate)
    except keys.OwnNameError:
        items = _items(value, variables)
        return evaluate(value) if items is None else list(_each(items, variables, evaluate, store))
    except (keys.IncomparableError, AnsibleError):
        key = ""
    if not key:
        return evaluate(value)
    path = store / f"{key}.json"
    with (store / f"{key}.lock").open("w") as lock:
        if not path.is_file():
            _locked(lock, time.monotonic() + WAIT_SECONDS)
        if not path.is_file():
            return _first(value, evaluate, path)
    return _result(json.loads(path.read_bytes()))


def _items(value: t.Any, variables: t.Any) -> list[t.Any] | None:
    """Return the items of a variable that is a list, as they are written."""
    named = _ONE_NAME.match(value) if isinstance(value, str) else None
    items = variables.get(named[1]) if named else None
    return list(items) if isinstance(items, list) else None


def _each(items: list[t.Any], variables: t.Any, evaluate: Callable[[t.Any], t.Any], store: Path) -> t.Iterator[t.Any]:
    for item in items:
        with contextlib.suppress(AnsibleValueOmittedError):
            yield evaluated(item, variables, evaluate, store)


def _result(stored: dict[str, t.Any]) -> t.Any:
    if "value" not in stored:
        raise AnsibleValueOmittedError
    return stored["value"]


def _first(value: t.Any, evaluate: Callable[[t.Any], t.Any], path: Path) -> t.Any:
    """Evaluate for the other hosts, too; without a value, the argument is omitted."""
    try:
        result = evaluate(value)
    except AnsibleValueOmittedError:
        _write(path, {})
        raise
    _write(path, {"value": plain(result)})
    return result


def _locked(lock: t.IO[str], until: float) -> None:
    """Wait for the process that evaluates the same; the lock ends with the process."""
    while time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return


def _write(path: Path, stored: dict[str, t.Any]) -> None:
    """Write a result that JSON keeps as it is; without a file, each host evaluates for itself."""
    text = json.dumps(stored, default=lambda _other: None)
    if json.loads(text) == stored:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as partial:
            partial.write(text)
        Path(partial.name).replace(path)
