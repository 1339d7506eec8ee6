# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Create, change and remove a cluster as one deployment stack of the subscription, which has the resource group inside.

Each run reads what there is, renders the template, asks what-if, judges the answer, lets Azure validate, and writes.
Check mode ends before the write. The stack deletes what the template no longer has, and judge.py refuses that first.
"""

from __future__ import annotations

import datetime
import typing as t
import uuid

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import azure, judge, machines, template

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

    Body = Mapping[str, t.Any]

_DONE = ("succeeded", "failed", "canceled")
_KEPT = datetime.timedelta(days=1)  # how long Azure keeps an answer of what-if that we could not delete


class Stack:
    """The stack of one cluster."""

    def __init__(self, asks: azure.Azure, scope: Scope, allow: Collection[str], is_check: bool) -> None:
        """I(allow) are what this run may change or delete, as TYPE/NAME."""
        self._azure = asks
        self._scope = scope
        self._allow = {name.lower() for name in allow}
        self._is_check = is_check

    def present(self, manager: str) -> dict[str, t.Any]:
        """Create or change the cluster. I(manager) is the address of Resource Manager."""
        scope, there = self._scope, self._read()
        existing = self._machines(there)
        too_many = machines.too_many(scope, existing)
        if too_many:
            raise AzureError("\n".join(too_many))
        inner = template.resources(scope, existing, manager)
        whole = template.template(scope, inner)
        answer = self._what_if(whole)
        found = judge.judge(answer, self._known(inner, there, answer))
        _refuse(found.refusals)
        digest = template.digest(whole)
        applied = (there or {}).get("tags", {}).get("gpucluster_template")
        is_changed = bool(found.changes) or applied != digest or _state(there) != "succeeded"
        if is_changed:
            self._validate(whole)
        if is_changed and not self._is_check:
            self._apply(whole, digest)
        words = [*template.summary(scope), *found.doubts]
        return {"changed": is_changed, "changes": found.changes, "summary": words, "diff": judge.diff(found.changes)}

    def absent(self) -> dict[str, t.Any]:
        """Delete the stack with its resource group and all that is in it."""
        there, group = self._read(), self._scope.cluster["resource_group"]
        rows = self._azure.machines(group)
        if there is None:
            stays = [] if rows is None else [f"the resource group {group} exists, but no stack made it: it stays"]
            return {"changed": False, "changes": [], "summary": stays, "diff": judge.diff([])}
        managed = _managed(there)
        foreign = [name for name, row in (rows or {}).items() if str(row.get("id")).lower() not in managed]
        foreign = [name for name in foreign if _owner(rows[name]) != self._scope.name] if rows else []
        _refuse(
            [
                one
                for one in (f"virtualmachines/{name}: somebody else made it" for name in foreign)
                if one.split(": ")[0].lower() not in self._allow
            ]
        )
        changes = [{"resource": one, "name": one.rpartition("/")[2], "change": "Delete"} for one in managed]
        if not self._is_check:
            self._delete()
        lines = {"before": "\n".join([*managed, ""]), "after": ""}
        return {"changed": True, "changes": changes, "summary": [], "diff": lines}

    def _read(self) -> Body | None:
        """Return the stack, or None. One of somebody else, or that another run changes now, is refused."""
        name = self._scope.name
        found = self._azure.ask(f"stack {name}", lambda: self._azure.clients.stacks.get_at_subscription(name))
        if found is None:
            return None
        body: Body = azure.plain(found)
        if _owner(body) != name:
            raise AzureError(f"the stack {name} exists, and its tag gpucluster_cluster is {_owner(body) or 'missing'}")
        if _state(body) not in _DONE:
            raise AzureError(f"the stack {name} is {_state(body)}: another run changes it; run again when it has ended")
        return body

    def _machines(self, there: Body | None) -> list[str]:
        """Return the names of the machines that exist. A group without its stack is somebody else's."""
        group = self._scope.cluster["resource_group"]
        rows = self._azure.machines(group)
        if rows is not None and there is None:
            raise AzureError(
                f"azure_cluster.resource_group: the group {group} exists, and azure_up did not make it; allowed: a name"
                " that no group has. azure_down would delete the group with everything in it"
            )
        return [name for name, row in (rows or {}).items() if _owner(row) == self._scope.name]

    def _known(self, inner: list[Resource], there: Body | None, answer: Body) -> judge.Known:
        scope = self._scope
        wanted = {scope.id(one["type"], one["name"]).lower(): one["type"].lower() for one in inner}
        wanted[scope.group_id.lower()] = "microsoft.resources/resourcegroups"
        managed = _managed(there or {})
        gone = self._gone(answer)
        return judge.Known(scope.name, wanted, managed, there is None, gone, self._allow)

    def _gone(self, answer: Body) -> set[str]:
        """Return the machines, with their interfaces, that a person deleted and the stack still has."""
        changes = ((answer.get("properties") or {}).get("changes") or {}).get("resourceChanges") or []
        deletes = [str(row.get("id")) for row in changes if str(row.get("changeType")).lower() == "delete"]
        group, found = self._scope.cluster["resource_group"], set()
        for one in deletes:
            name = one.rpartition("/")[2]
            is_machine = one.lower() == self._scope.id(machines.MACHINE, name).lower()
            if is_machine and not self._azure.has_machine(group, name):
                found |= {one.lower(), self._scope.id(judge.INTERFACES, name).lower()}
        return found

    def _what_if(self, whole: Resource) -> Body:
        """Return the answer of what-if, which must be a complete one."""
        operations, name = self._azure.clients.what_ifs, f"{self._scope.name}-{uuid.uuid4().hex[:8]}"
        stack_id = f"{self._subscription()}/providers/Microsoft.Resources/deploymentStacks/{self._scope.name}"
        body = self._body(whole, deploymentStackResourceId=stack_id, retentionInterval=_duration(_KEPT))
        try:
            self._azure.finish("what-if", lambda: operations.begin_create_or_update(name, body))
            answer = azure.plain(self._azure.finish("what-if", lambda: operations.begin_what_if(name)))
        finally:
            self._forget(name)
        properties = answer.get("properties") or {}
        if properties.get("error") or _state(answer) != "succeeded" or not properties.get("changes"):
            why = azure.failures(properties.get("error")) or f"its state is {_state(answer)}, with no changes"
            raise AzureError(f"what-if gave no answer, so nothing was changed: {why}")
        return t.cast("Body", answer)

    def _forget(self, name: str) -> None:
        """Delete the answer of what-if; one that stays does not matter."""
        try:
            self._azure.ask("what-if", lambda: self._azure.clients.what_ifs.delete(name))
        except AzureError:
            return

    def _validate(self, whole: Resource) -> None:
        """Let Azure and its resource providers validate: a quota is refused before anything is made."""
        name, body = self._scope.name, self._body(whole)
        stacks = self._azure.clients.stacks
        found = self._azure.finish(
            "validation",
            lambda: stacks.begin_validate_stack_at_subscription(name, {**body, "tags": self._scope.tags()}),
        )
        error = azure.plain(found or {}).get("error")
        if error:
            raise AzureError(f"Azure refuses the template, and nothing was changed: {azure.failures(error)}")

    def _apply(self, whole: Resource, digest: str) -> None:
        name, stacks = self._scope.name, self._azure.clients.stacks
        body = {**self._body(whole), "tags": self._scope.tags(gpucluster_template=digest)}
        try:
            found = self._azure.finish(
                f"stack {name}", lambda: stacks.begin_create_or_update_at_subscription(name, body)
            )
        except AzureError as exc:
            raise AzureError(f"{exc}{self._failed()}") from exc
        done = azure.plain(found or {})
        if _state(done) != "succeeded":
            error = azure.failures((done.get("properties") or {}).get("error"))
            raise AzureError(f"the stack {name} is {_state(done)}: {error}{self._failed()}")

    def _failed(self) -> str:
        """Return which resources of the stack failed; the others are there, and the next run continues."""
        try:
            found = self._azure.ask("stack", lambda: self._azure.clients.stacks.get_at_subscription(self._scope.name))
        except AzureError:
            return ""
        rows = (azure.plain(found or {}).get("properties") or {}).get("failedResources") or []
        names = [f"{str(one.get('id')).rpartition('/')[2]} ({azure.failures(one.get('error'))})" for one in rows]
        return f". Failed: {', '.join(names)}. Run again to continue" if names else ""

    def _delete(self) -> None:
        name, stacks = self._scope.name, self._azure.clients.stacks
        whole = dict.fromkeys(("unmanage_action_resources", "unmanage_action_resource_groups"), "delete")
        try:
            self._azure.finish(
                f"deletion of the stack {name}", lambda: stacks.begin_delete_at_subscription(name, **whole)
            )
        except AzureError as exc:
            raise AzureError(f"{exc}{self._failed()}") from exc
        left = self._azure.machines(self._scope.cluster["resource_group"])
        if left is not None:
            raise AzureError(f"the resource group {self._scope.cluster['resource_group']} still exists; run again")

    def _subscription(self) -> str:
        return f"/subscriptions/{self._scope.cluster['subscription_id']}"

    def _body(self, whole: Resource, **more: t.Any) -> dict[str, t.Any]:
        """Return the request of a stack or of its what-if."""
        properties = {
            "template": whole,
            "actionOnUnmanage": {"resources": "delete", "resourceGroups": "delete", "managementGroups": "delete"},
            # Azure would also deny what gpucluster-elastic, azure_scale and the workflow do.
            "denySettings": {"mode": "none"},
            "validationLevel": "Provider",
            **more,
        }
        return {"location": self._scope.cluster["location"], "properties": properties}


def _refuse(sentences: list[str]) -> None:
    """Raise an error with all refusals and the way to allow them for one run."""
    if sentences:
        names = sorted({sentence.split(": ")[0] for sentence in sentences})
        raise AzureError(
            "\n".join([*sentences, f"Nothing was changed. To allow this for one run: -e '{{azure_allow: {names}}}'"])
        )


def _owner(body: Body) -> str:
    return str((body.get("tags") or {}).get("gpucluster_cluster", ""))


def _state(body: Body | None) -> str:
    return str(((body or {}).get("properties") or {}).get("provisioningState") or "unknown").lower()


def _managed(body: Body) -> list[str]:
    """Return the IDs of the resources that a stack has, or tried to delete, in lower case."""
    properties = body.get("properties") or {}
    rows = [*(properties.get("resources") or []), *(properties.get("failedResources") or [])]
    return list(dict.fromkeys(str(one.get("id")).lower() for one in rows))


def _duration(value: datetime.timedelta) -> str:
    return f"P{value.days}D"
