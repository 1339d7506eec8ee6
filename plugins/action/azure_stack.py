# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module azure_stack."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import session, stack, template
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "cluster": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "resource_group": {"type": "str", "required": True},
    "create_resource_group": {"type": "bool", "default": True},
    "location": {"type": "str", "default": ""},
    "template": {"type": "dict"},
    "tags": {"type": "dict", "default": {}},
    "keep_capacity": {"type": "bool", "default": True},
    "delete": {"type": "list", "elements": "str", "default": []},
    "adopt": {"type": "list", "elements": "str", "default": []},
    "deny": {"type": "str", "choices": ["none", "denyDelete", "denyWriteAndDelete"], "default": "none"},
    "validation": {"type": "str", "choices": ["Provider", "ProviderNoRbac", "Template"], "default": "Provider"},
}
_NEWS = 30.0  # seconds between two lines about a wait


class ActionModule(ActionBase):
    """Create, change or remove a deployment stack and its resource group."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the changes, or one message without secrets."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, given = self.validate_argument_spec(
            argument_spec={**_SPEC, **session.argument_spec()}, required_if=[("state", "present", ["template"])]
        )
        started = time.monotonic()
        self._requests = 0
        try:
            result.update(self._bring(plain(given)))
        except AzureInventoryError as exc:
            result.update(failed=True, changed=False, msg=_message(exc))
        result.update(requests=self._requests, seconds=round(time.monotonic() - started, 1))
        return result

    def _bring(self, given: dict[str, t.Any]) -> dict[str, t.Any]:
        wanted = _wanted(given)

        def work(opened: session.Session) -> dict[str, t.Any]:
            try:
                one = stack.Stack(opened, wanted, bool(self._task.check_mode))
                return one.present() if given["state"] == "present" else one.absent()
            finally:
                self._requests = opened.counter.value

        found: dict[str, t.Any] = session.run(given, work, News(self._display.display))
        for text in found["kept"]:
            self._display.display(f"kept: {text}")
        return found


class News:
    """Tells what a run waits for, now and then."""

    def __init__(self, display: t.Callable[[str], None], clock: t.Callable[[], float] = time.monotonic) -> None:
        """Show lines with a function; the first comes after the first pause."""
        self._display = display
        self._clock = clock
        self._last = clock()

    def __call__(self, text: str) -> None:
        """Show a line if the last one is old."""
        if self._clock() - self._last >= _NEWS:
            self._last = self._clock()
            self._display(f"azure_stack waits: {text}")


def _wanted(given: dict[str, t.Any]) -> stack.Wanted:
    if given["state"] == "present":
        template.check(given["template"])
    session.refuse_empty(given, ("name", "cluster", "resource_group"))
    return stack.Wanted(
        name=given["name"],
        cluster=given["cluster"],
        resource_group=given["resource_group"],
        location=given["location"],
        template=given["template"],
        tags={str(key): str(value) for key, value in given["tags"].items()},
        deny=given["deny"],
        validation=given["validation"],
        create_group=given["create_resource_group"],
        keep_capacity=given["keep_capacity"],
        delete=tuple(given["delete"]),
        adopt=tuple(given["adopt"]),
    )


def _message(exc: AzureInventoryError) -> str:
    """Return the message of an error; a refusal that nobody explained gets its advice."""
    return exc.explained() if isinstance(exc, RequestError) else str(exc)
