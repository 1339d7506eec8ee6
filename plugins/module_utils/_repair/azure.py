# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Move the machine of a node to another host, or install it again, with the managed identity of the controller.

The machine of a node is the one whose interface has the address of the node. So the names of nodes and machines may
differ. Azure keeps name and address of the machine in both steps.
"""

from __future__ import annotations

import re
import socket
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import (
    AzureError,
    Client,
    Place,
    RefusedError,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import causes, explained

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Body = dict[str, t.Any]

OPTIONS = ("subscription_id", "resource_group", "steps", "client_id", "resource_manager", "metadata")
_COMPUTE = {"api-version": "2025-04-01"}
_NETWORK = {"api-version": "2025-05-01"}
_SET_NETWORK = {"api-version": "2018-10-01"}  # the interfaces of the instances of a scale set
_METADATA = {"api-version": "2021-02-01"}
_PAUSE = 10.0
_INSTANCE = re.compile(r"(.*/virtualMachineScaleSets/[^/]+)/virtualMachines/([^/]+)", re.IGNORECASE)


def client_of(options: Mapping[str, t.Any]) -> Client:
    """Return a client for the cloud of the settings."""
    return Client(Place(str(options["resource_manager"]), str(options["metadata"]), str(options["client_id"])))


def addresses(host: str) -> set[str]:
    """Return the addresses of a host name."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError as exc:
        raise AzureError(f"{host} has no address: {exc}") from None


class Machines:
    """The machines of one resource group."""

    def __init__(
        self,
        client: Client,
        options: Mapping[str, t.Any],
        clock: Callable[[], float],
        pause: Callable[[float], None],
        find: Callable[[str], set[str]] = addresses,
    ) -> None:
        """Find returns the addresses of a host name."""
        self._client = client
        self._base = f"/subscriptions/{options['subscription_id']}/resourceGroups/{options['resource_group']}/providers"
        self._clock = clock
        self._pause = pause
        self._find = find

    def do(self, step: str, host: str, seconds: float) -> str:
        """
        Do a step with the machine of a host, and wait until Azure has ended it; return the ID of the machine.

        Raise AzureError if no machine, or more than one, has the address, and if Azure refuses or does not end.
        """
        machine = self._machine(host)
        deadline = self._clock() + seconds
        operation = self._begun(step, machine, deadline)
        while operation:
            self._wait(deadline, f"{step} of {machine} did not end within {seconds:g} s")
            operation = self._followed(operation)
        return machine

    def _machine(self, host: str) -> str:
        wanted = self._find(host)
        found = {machine.lower(): machine for machine, address in self._interfaces() if address in wanted}
        if len(found) != 1:
            names = ", ".join(sorted(found.values())) or "none"
            raise AzureError(f"machines with the address of {host} ({', '.join(sorted(wanted))}): {names}")
        machine = next(iter(found.values()))
        own = str((self._client.metadata("/metadata/instance", _METADATA).get("compute") or {}).get("resourceId") or "")
        if not own:
            raise AzureError("the metadata service does not say which machine is this controller")
        if own.lower() == machine.lower():
            raise AzureError(f"{machine} is this controller")
        return machine

    def _interfaces(self) -> list[tuple[str, str]]:
        """Return machine and private address of each interface of the resource group."""
        rows = self._client.rows(f"{self._base}/Microsoft.Network/networkInterfaces", _NETWORK)
        for one in self._client.rows(f"{self._base}/Microsoft.Compute/virtualMachineScaleSets", _COMPUTE):
            rows += self._client.rows(f"{one['id']}/networkInterfaces", _SET_NETWORK)
        return [pair for row in rows for pair in _addresses_of(row)]

    def _begun(self, step: str, machine: str, deadline: float) -> str:
        """Send the request, again while Azure is busy with the machine; return the address of the operation."""
        instance = _INSTANCE.fullmatch(machine)
        path, body = (instance[1], {"instanceIds": [instance[2]]}) if instance else (machine, None)
        while True:
            try:
                return self._client.ask("POST", f"{path}/{step}", _COMPUTE, body).operation
            except RefusedError as exc:
                if exc.status not in (408, 409, 429) and exc.status < 500:
                    raise
                self._wait(deadline, str(exc))

    def _followed(self, operation: str) -> str:
        """Return the address of the operation while it runs, and an empty string after its end."""
        try:
            answer = self._client.ask("GET", operation, {})
        except RefusedError as exc:
            if exc.status < 500 and exc.status not in (408, 429):
                raise
            return operation
        except AzureError:
            return operation  # no answer; the deadline ends it
        status = str(answer.body.get("status") or "").lower()
        if status in ("failed", "canceled"):
            raise AzureError(explained(causes(answer.body)) or status)
        if status:
            return "" if status == "succeeded" else operation
        return answer.operation  # without a status, an operation that runs names its address again

    def _wait(self, deadline: float, text: str) -> None:
        if self._clock() + _PAUSE > deadline:
            raise AzureError(text)
        self._pause(_PAUSE)


def _addresses_of(row: Body) -> list[tuple[str, str]]:
    properties = row.get("properties") or {}
    machine = str((properties.get("virtualMachine") or {}).get("id") or "")
    inner = [one.get("properties") or {} for one in properties.get("ipConfigurations") or []]
    return [(machine, str(one["privateIPAddress"])) for one in inner if machine and one.get("privateIPAddress")]
