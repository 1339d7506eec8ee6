# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Bring a deployment stack and its resource group to their wanted state, or remove them."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine import reasons
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import NoAnswerError, RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import (
    AzureInventoryError,
    ConfigError,
    tag,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import (
    first_run,
    leftovers,
    ownership,
    whatif,
    writer,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as templates

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.session import Session
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.template import Resource

    Body = dict[str, t.Any]

STACKS = "2025-07-01"
MADE_BY = "gpucluster_stack"  # on a group: the stack whose run created it, so that removal may delete it
DIGEST = "gpucluster_template"
TIME = "gpucluster_delete_after"  # on a group: the program on the controller replaces the period by a time
# Kinds of resources whose deletion ends jobs or loses data.
PRECIOUS = frozenset(
    {
        "microsoft.compute/disks",
        "microsoft.compute/virtualmachines",
        "microsoft.compute/virtualmachinescalesets",
        "microsoft.netapp/netappaccounts/capacitypools/volumes",
        "microsoft.storage/storageaccounts",
        "microsoft.storagecache/amlfilesystems",
    }
)
_TRIES = 3  # runs that find another run at work
_BUSY = ("DeploymentStackInNonTerminalState", "DeploymentActive", "AnotherOperationInProgress", "Conflict")


class StackError(AzureInventoryError):
    """A change was refused or failed; the message says what to do."""


class Wanted(t.NamedTuple):
    """The inputs of a run."""

    name: str
    cluster: str
    resource_group: str
    location: str = ""
    template: Mapping[str, t.Any] | None = None
    tags: Mapping[str, str] = {}
    deny: str = "none"
    validation: str = "Provider"
    create_group: bool = True
    keep_capacity: bool = True
    delete: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()


class Found(t.NamedTuple):
    """What Azure has; a group is an empty mapping while nobody needs to know more than that it exists."""

    stack: Body | None
    group: Body | None


class Stack:
    """One stack of one cluster."""

    def __init__(
        self,
        session: Session,
        wanted: Wanted,
        check_mode: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Use a session; in check mode, send no request that writes."""
        self._client = session.client
        self._writer = session.writer
        self._wanted = wanted
        self._check_mode = check_mode
        self._sleep = sleep
        self._group_id = f"/subscriptions/{session.subscription}/resourceGroups/{wanted.resource_group}"
        self._subscription_id = f"/subscriptions/{session.subscription}"
        self._id = f"{self._group_id}/providers/Microsoft.Resources/deploymentStacks/{wanted.name}"
        self._doubts: list[str] = []
        self._kept: list[str] = []

    # Read

    def _read(self) -> Found:
        """Return stack and group after others have finished with them; refuse those of another cluster."""
        stack = self._settled_stack()
        if isinstance(stack, dict):
            self._refuse_foreign(stack, "stack", self._wanted.name)
            return Found(stack, {})
        group = self._writer.settled(self._group_id, templates.GROUP_VERSION, "the resource group is being deleted")
        if group is not None:
            self._refuse_foreign(group, "resource group", self._wanted.resource_group)
        return Found(None, group)

    def _settled_stack(self) -> Body | None:
        try:
            stack = self._client.get(self._id, {"api-version": STACKS})
        except RequestError as exc:
            if exc.status != 404:
                raise
            return None
        if writer.state(stack) in ("succeeded", *writer.FAILED):
            return stack
        self._refuse_foreign(stack, "stack", self._wanted.name)
        who = (stack.get("systemData") or {}).get("lastModifiedBy") or "somebody"
        return self._writer.settled(self._id, STACKS, f"the stack is {writer.state(stack)} by {who}")

    def _refuse_foreign(self, found: Body, what: str, name: str) -> None:
        owner = ownership.owner(found)
        if owner is not None and owner != self._wanted.cluster:
            raise StackError(
                f"the {what} {name} belongs to the cluster {owner} (tag {ownership.TAG}), not to "
                f"{self._wanted.cluster}; nothing was changed"
            )
        if owner is None and what == "stack":
            raise StackError(
                f"the stack {name} has no tag {ownership.TAG}, so another tool made it; choose another name"
            )

    def _whole_group(self, found: Found) -> Body | None:
        """Return the group with its tags."""
        return found.group or self._writer.get(self._group_id, templates.GROUP_VERSION)

    def _is_ours(self, group: Body | None) -> bool:
        """Return whether a run for this stack created the group."""
        made_by = tag((group or {}).get("tags") or {}, MADE_BY)
        return ownership.owner(group or {}) == self._wanted.cluster and made_by == self._wanted.name

    # Present

    def present(self) -> Body:
        """Compare, and write only if something differs; return the result of the module."""
        for left in reversed(range(_TRIES)):
            found = self._read()
            changes, capacities = self._compare_all(found)
            self._refuse_deletions(changes)
            if not changes or self._check_mode:
                return self._result(changes, found.stack)
            try:
                made = self._apply(found, capacities)
            except RequestError as exc:
                if not left or not _is_busy(exc):
                    raise StackError(self._explained(exc)) from None
                self._sleep(1)
                continue
            return self._result(changes, made)
        raise AssertionError("unreachable")

    def _refuse_deletions(self, changes: list[Body]) -> None:
        """Refuse to delete machines and data that the inputs do not name for it; an empty scale set holds none."""
        dropped = {one["resource"].lower(): one for one in changes if one["change"] == "Delete"}
        if dropped:
            content = leftovers.Leftovers(self._writer, self._group_id, self._wanted.cluster).sorted(
                [{"id": one["resource"]} for one in dropped.values()]
            )
            self._refuse_deleting([one for one in content.untagged if str(one["id"]).lower() in dropped])
        held = [
            one["name"]
            for one in dropped.values()
            if one["type"].lower() in PRECIOUS
            and one["name"] not in self._wanted.delete
            and not self._is_empty_set(one)
        ]
        if held:
            raise StackError(
                f"nothing was changed; the template no longer names {words.listed(held, 10)}, which would be deleted "
                "with all machines, jobs and data. Add them to the template again, or name them in the option delete"
            )

    def _refuse_taking(self, stack: Body | None, there: list[whatif.Existing]) -> None:
        """Refuse to change what is not of the cluster."""
        managed = {str(one["id"]).lower() for one in _managed(stack)}
        taken = ownership.taken(there, managed, self._wanted.cluster, self._wanted.adopt, self._writer)
        if taken:
            raise StackError(
                f"nothing was changed; the resource group {self._wanted.resource_group} already has "
                f"{words.listed(taken, 10)}. They are not of this cluster, which would change them, and "
                "delete them with itself. Choose another resource group or another name, or name them in the option "
                "adopt (azure_up_adopt)"
            )

    def _is_empty_set(self, change: Body) -> bool:
        if not change["type"].lower().endswith("/virtualmachinescalesets"):
            return False
        there = self._writer.get(change["resource"], templates.SCALE_SETS)
        return there is None or (there.get("sku") or {}).get("capacity") == 0

    def _explained(self, exc: RequestError) -> str:
        text = f"stack {self._wanted.name}: {exc.explained()}"
        if not isinstance(exc, (writer.OperationFailedError, NoAnswerError)):
            return text
        return (
            f"{text}. What was made so far stays, and belongs to the stack. "
            "Run again to continue, or remove it with state absent"
        )

    def _template(self) -> Body:
        return t.cast("Body", self._wanted.template)

    def _compare_all(self, found: Found) -> tuple[list[Body], dict[str, int]]:
        """Compare; in check mode, tell in one list what else would stop the first run."""
        others: list[str] = []
        if self._check_mode and found.stack is None:
            scope = self._subscription_id if found.group is None else self._group_id
            others += first_run.problems(self._writer, self._subscription_id, scope, self._template())
        try:
            compared = self._compare(found)
        except StackError as exc:
            raise StackError("; ".join([str(exc), *others])) from None
        if others:
            raise StackError(f"nothing was changed; {'; '.join(others)}")
        return compared

    def _compare(self, found: Found) -> tuple[list[Body], dict[str, int]]:
        """Return the changes, and the capacities of scale sets that stay as they are."""
        self._doubts.clear()
        self._kept.clear()
        if found.group is None:
            return self._compare_with_nothing(), {}
        now = templates.resources(self._template(), self._group_id)
        known = whatif.Templates(now, *self._last(found.stack))
        reading = whatif.read(self._what_if(), known, self._wanted.keep_capacity)
        self._doubts.extend(reading.doubts)
        if now and len(reading.doubts) == len(now):
            raise StackError(f"what-if judged no resource of the template: {words.listed(reading.doubts, 3)}")
        self._refuse_taking(found.stack, reading.there)
        self._note_kept(now, reading.capacities)
        changes = [*reading.changes, *self._unmanaged(found.stack, now), *self._stack_changes(found.stack)]
        return changes, reading.capacities

    def _compare_with_nothing(self) -> list[Body]:
        """Return all resources as new, after a validation that needs no group."""
        if not self._wanted.create_group:
            raise StackError(
                f"the resource group {self._wanted.resource_group} does not exist; create it, or "
                "set create_resource_group"
            )
        if not self._wanted.location:
            raise ConfigError("location is empty; a new resource group needs it")
        self._validate_for_subscription()
        group = templates.Resource(
            self._group_id,
            templates.GROUPS,
            self._wanted.resource_group,
            {"location": self._wanted.location, "tags": self._group_tags()},
        )
        now = [group, *templates.resources(self._template(), self._group_id)]
        return [whatif.change(one, "Create", whatif.created(one.body)) for one in now]

    def _last(self, stack: Body | None) -> tuple[list[Resource], bool]:
        """Return the resources of the template applied last, and whether it may differ from the present one."""
        if stack is None:
            return [], True
        if tag(stack.get("tags") or {}, DIGEST) == templates.digest(self._template()):
            return [], False
        try:
            answer = self._writer.post(f"{self._id}/exportTemplate", STACKS)
        except RequestError as exc:
            if exc.status == 401:
                raise
            self._doubts.append(f"the template applied last cannot be read: {exc}")
            return [], True
        last = answer.get("template")
        return templates.resources(last, self._group_id) if isinstance(last, dict) and last.get(
            "resources"
        ) else [], True

    def _what_if(self) -> Body:
        path = f"{self._group_id}/providers/Microsoft.Resources/deployments/{self._wanted.name}/whatIf"
        settings = {"whatIfSettings": {"resultFormat": "FullResourcePayloads"}}
        return self._refusal_explained(path, {"properties": {**self._deployment(self._template()), **settings}})

    def _deployment(self, template: Body) -> Body:
        return {"mode": "Incremental", "template": template, "validationLevel": self._wanted.validation}

    def _refusal_explained(self, path: str, body: Body) -> Body:
        """Send a request that only checks, and explain a refusal."""
        try:
            answer = self._writer.post(path, templates.DEPLOYMENTS, body)
        except NoAnswerError:
            raise
        except RequestError as exc:
            raise StackError(f"nothing was changed; Azure refuses the template: {exc.explained()}") from None
        if isinstance(answer.get("error"), dict) and answer["error"].get("code"):
            text = reasons.explained(reasons.causes(answer))
            raise StackError(f"nothing was changed; Azure refuses the template: {text}")
        return answer

    def _validate(self, template: Body) -> None:
        path = f"{self._group_id}/providers/Microsoft.Resources/deployments/{self._wanted.name}/validate"
        self._refusal_explained(path, {"properties": self._deployment(template)})

    def _validate_for_subscription(self) -> None:
        path = f"{self._subscription_id}/providers/Microsoft.Resources/deployments/{self._wanted.name}/validate"
        wrapped = templates.for_subscription(
            self._template(), self._wanted.resource_group, self._wanted.location, self._wanted.name
        )
        self._refusal_explained(path, {"location": self._wanted.location, "properties": self._deployment(wrapped)})

    def _note_kept(self, now: list[Resource], capacities: Mapping[str, int]) -> None:
        for one in now:
            there = capacities.get(one.name.lower())
            asked = (one.body.get("sku") or {}).get("capacity")
            if there is not None and there != asked:
                self._kept.append(f"scale set {one.name} has {there} instances, the template says {asked}")

    def _unmanaged(self, stack: Body | None, now: list[Resource]) -> list[Body]:
        """Return the resources of the stack that the template no longer names."""
        named = {one.id.lower() for one in now}
        return [_deletion(one) for one in _managed(stack) if str(one["id"]).lower() not in named]

    def _stack_changes(self, stack: Body | None) -> list[Body]:
        """Return the changes of the stack itself: its tags, its settings, and a failure to repair."""
        if stack is None:
            return [whatif.change(self._resource(), "Create", [])]
        before, after = self._shown(stack), self._shown(self._body(self._template()))
        found = [
            {"path": path, "before": before.get(path), "after": after.get(path)}
            for path in sorted({*before, *after})
            if before.get(path) != after.get(path)
        ]
        if writer.state(stack) in writer.FAILED:
            found.append({"path": "properties.provisioningState", "before": writer.state(stack), "after": "succeeded"})
        return [whatif.change(self._resource(), "Modify", found)] if found else []

    def _resource(self) -> Resource:
        return templates.Resource(self._id, "Microsoft.Resources/deploymentStacks", self._wanted.name, {})

    @staticmethod
    def _shown(stack: Body) -> dict[str, t.Any]:
        """Return what this module sets of a stack, without the digest, which is no change by itself."""
        tags = {f"tags.{key}": value for key, value in (stack.get("tags") or {}).items() if key != DIGEST}
        deny = ((stack.get("properties") or {}).get("denySettings") or {}).get("mode")
        return {**tags, "properties.denySettings.mode": deny}

    def _body(self, template: Body) -> Body:
        tags = {**self._wanted.tags, ownership.TAG: self._wanted.cluster, DIGEST: templates.digest(template)}
        return {
            "tags": tags,
            "properties": {
                "template": template,
                "actionOnUnmanage": {"resources": "delete", "resourceGroups": "detach", "managementGroups": "detach"},
                "denySettings": {"mode": self._wanted.deny},
                "validationLevel": self._wanted.validation,
            },
        }

    def _group_tags(self) -> dict[str, str]:
        return {**self._wanted.tags, ownership.TAG: self._wanted.cluster, MADE_BY: self._wanted.name}

    def _apply(self, found: Found, capacities: Mapping[str, int]) -> Body:
        """Validate, then write the group and the stack."""
        template = templates.with_capacities(self._template(), capacities)
        if found.group is not None:
            self._validate(template)
        self._write_group(found)
        return self._writer.put(self._id, STACKS, self._body(template))

    def _write_group(self, found: Found) -> None:
        """Create the group, or bring the tags of our own group up to date."""
        group = None if found.group is None else self._whole_group(found)
        if group is not None:
            self._refuse_foreign(group, "resource group", self._wanted.resource_group)
        # Tags of others stay, as does the time at which the cluster deletes itself.
        there = (group or {}).get("tags") or {}
        tags = {**there, **self._group_tags(), **{name: value for name, value in there.items() if name == TIME}}
        if group is None:
            location = self._wanted.location
        elif self._is_ours(group) and there != tags:
            location = str(group["location"])
        else:
            return
        self._writer.put(self._group_id, templates.GROUP_VERSION, {"location": location, "tags": tags})

    def _result(self, changes: list[Body], stack: Body | None) -> Body:
        outputs = ((stack or {}).get("properties") or {}).get("outputs") or {}
        return {
            "changed": bool(changes),
            "changes": changes,
            "outputs": {key: one.get("value") for key, one in outputs.items() if isinstance(one, dict)},
            "kept": self._kept,
            "warnings": [f"cannot be compared: {one}" for one in self._doubts],
            "diff": whatif.diff(changes),
        }

    # Absent

    def absent(self) -> Body:
        """Remove the stack with its resources, what Azure made beside them, and the group if a run created it."""
        found = self._read()
        group = self._whole_group(found) if found.group is not None else None
        if group is None:
            return self._result([], None)
        self._refuse_foreign(group, "resource group", self._wanted.resource_group)
        rest = leftovers.Leftovers(self._writer, self._group_id, self._wanted.cluster)
        content = rest.sorted(_managed(found.stack))
        self._refuse_deleting(content.untagged)
        drop_group = self._is_ours(group) and not content.foreign
        changes = [_deletion(one) for one in (*_managed(found.stack), *content.ours)]
        changes += [whatif.change(self._resource(), "Delete", [])] if found.stack else []
        if drop_group:
            group_resource = templates.Resource(self._group_id, templates.GROUPS, self._wanted.resource_group, {})
            changes.append(whatif.change(group_resource, "Delete", []))
        elif self._is_ours(group):
            self._keep_group(content.foreign)
        if changes and not self._check_mode and not self._remove(found, rest, drop_group) and drop_group:
            changes.pop()
        return self._result(changes, None)

    def _refuse_deleting(self, rows: list[Body]) -> None:
        """Refuse to delete what is not of the cluster any more. Azure deletes a stack with all its resources."""
        last = self._writer.post(f"{self._id}/exportTemplate", STACKS).get("template") if rows else None
        strangers = ownership.strangers(rows, last or {}, self._group_id)
        if strangers:
            raise StackError(
                f"nothing was changed; the stack {self._wanted.name} would delete what has no tag "
                f"{ownership.TAG}={self._wanted.cluster}: {words.listed(strangers, 10)}. Set the tag if this is part "
                f"of the cluster. Otherwise run 'az stack group delete --name {self._wanted.name} --resource-group "
                f"{self._wanted.resource_group} --action-on-unmanage detachAll', which deletes nothing. Then run "
                "again: that deletes what has the tag"
            )

    def _keep_group(self, foreign: list[str]) -> None:
        what = f"it holds {words.listed(foreign, 5)}" if foreign else f"its tag {MADE_BY} or {ownership.TAG} changed"
        self._kept.append(f"resource group {self._wanted.resource_group}, because {what}")

    def _remove(self, found: Found, rest: leftovers.Leftovers, drop_group: bool) -> bool:
        """Remove stack and group, or what is left of ours; return whether the group was removed."""
        try:
            if found.stack:
                self._delete_stack()
            # The stack took minutes, in which others may have put something into the group.
            if drop_group and found.stack:
                foreign = rest.sorted(_managed(found.stack)).foreign
                group = self._writer.get(self._group_id, templates.GROUP_VERSION)
                drop_group = group is None or (self._is_ours(group) and not foreign)
                if not drop_group:
                    self._keep_group(foreign)
            if drop_group:
                self._writer.delete(self._group_id, templates.GROUP_VERSION)
            else:
                rest.delete()
        except RequestError as exc:
            raise StackError(
                f"the removal of the stack {self._wanted.name} is not complete: {exc.explained()}. "
                "Run again to remove the rest"
            ) from None
        return drop_group

    def _delete_stack(self) -> None:
        """Delete the stack with its resources; try once more, because Azure may take them in a wrong order."""
        query = {"unmanageAction.Resources": "delete", "unmanageAction.ResourceGroups": "detach"}
        query["unmanageAction.ManagementGroups"] = "detach"
        for left in (1, 0):
            try:
                self._writer.delete(self._id, STACKS, **query)
            except RequestError as exc:
                if not left or exc.is_refusal() or exc.status == 0:
                    raise
                self._writer.settled(self._id, STACKS)
            else:
                return


def _is_busy(exc: RequestError) -> bool:
    """Return whether Azure refused a write because another run is at work."""
    return exc.status == 409 and exc.code in _BUSY and not isinstance(exc, writer.OperationFailedError)


def _managed(stack: Body | None) -> list[Body]:
    """Return the resources of a stack, those first whose deletion failed before."""
    rows = ((stack or {}).get("properties") or {}).get("resources") or []
    return [one for one in rows if isinstance(one, dict) and one.get("id")]


def _deletion(row: Body) -> Body:
    provider, *parts = str(row["id"]).rpartition("/providers/")[2].split("/")
    kind, name = "/".join([provider, *parts[::2]]), "/".join(parts[1::2])
    return whatif.change(templates.Resource(str(row["id"]), kind, name, {}), "Delete", [])
