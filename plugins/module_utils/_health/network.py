# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of InfiniBand and Ethernet from the files below /sys."""

from __future__ import annotations

import typing as t

from . import counters
from .verdict import Finding, NotApplicableError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

_INFINIBAND = "/sys/class/infiniband"
_NET = "/sys/class/net"


class Port(t.NamedTuple):
    """One port of one InfiniBand adapter."""

    name: str
    state: str
    physical: str
    rate: str

    @property
    def adapter(self) -> str:
        """Return the name of the adapter."""
        return self.name.partition("/")[0]

    def fault(self, rate_gbps: float) -> str:
        """Return the fault of the port, or an empty string."""
        if self.state != "ACTIVE" or self.physical != "LinkUp":
            return f"{self.name} {self.state}/{self.physical}"
        try:
            rate = float(self.rate.split()[0])
        except (IndexError, ValueError):
            raise UnknownError(f"{self.name}: the rate is {self.rate!r}, not a number") from None
        return f"{self.name} {rate:.10g} Gb/s" if rate < rate_gbps else ""


def infiniband_ports(machine: Machine) -> list[Port]:
    """Return every InfiniBand port; skip Ethernet ports of the same adapters."""
    ports = []
    for adapter in machine.names(_INFINIBAND):
        for number in machine.names(f"{_INFINIBAND}/{adapter}/ports"):
            directory = f"{_INFINIBAND}/{adapter}/ports/{number}"
            if _line(machine, f"{directory}/link_layer") != "InfiniBand":
                continue
            texts = [_line(machine, f"{directory}/{name}") for name in ("state", "phys_state")]
            state, physical = (text.partition(":")[2].strip() or text for text in texts)
            ports.append(Port(f"{adapter}/{number}", state, physical, _line(machine, f"{directory}/rate")))
    return ports


def infiniband(case: Case) -> Finding:
    """Check the ports of the fabric: their number, their state and their rate."""
    adapters = [str(name) for name in case.items("adapters")]
    return judge_ports(adapters, case.number("rate_gbps"), infiniband_ports(case.machine))


def judge_ports(adapters: list[str], rate_gbps: float, ports: list[Port]) -> Finding:
    """
    Compare rates as numbers.

    Adapters have other names where udev does not rename them. If no name of the record exists, compare the number of
    ports. If one exists, ignore the ports of other adapters (storage).
    """
    expected = f"{len(adapters)} InfiniBand ports ACTIVE/LinkUp at {rate_gbps:.10g} Gb/s"
    present = {port.adapter for port in ports}
    known = present & set(adapters)
    judged = [port for port in ports if port.adapter in known or not known]
    faults = [f"{name} missing" for name in adapters if known and name not in present]
    faults += [fault for fault in (port.fault(rate_gbps) for port in judged) if fault]
    if faults:
        return unhealthy(expected, listing(faults))
    return healthy(expected) if len(judged) >= len(adapters) else unhealthy(expected, f"{len(judged)} ports")


def infiniband_errors(case: Case) -> Finding:
    """Check that no error counter of a port grows beyond its limit within the window."""
    limits: dict[str, float] = {
        str(name): float(limit) for name, limit in dict(case.value("growth_max_by_counter")).items()
    }
    found = _port_counters(case.machine, list(limits))
    by_counter = {name: limits[name.rpartition(" ")[2]] for name in found}
    return counters.judge(found, by_counter, case.number("window_seconds"), case.kept(), case.machine.now())


def infiniband_flaps(case: Case) -> Finding:
    """Check the number of times that a link went down within the window."""
    return _flaps(case, _port_counters(case.machine, ["link_downed"]))


def ethernet(case: Case) -> Finding:
    """Check that every active physical interface has a carrier, and that the named ones exist; none is no success."""
    machine = case.machine
    wanted = [str(name) for name in case.items("interfaces")]
    present = machine.names(_NET)
    watched = [name for name in present if name in wanted or _is_up(machine, name)]
    faults = [f"{name} missing" for name in wanted if name not in present]
    faults += [
        f"{name} {state}"
        for name in watched
        for state in [_line(machine, f"{_NET}/{name}/operstate")]
        if state not in ("up", "unknown")
    ]
    if faults:
        return unhealthy("every interface up", listing(faults))
    if not watched:
        raise NotApplicableError("no physical interface is set up")
    return healthy(f"up: {listing(watched)}")


def ethernet_flaps(case: Case) -> Finding:
    """Check the number of times that an interface lost its carrier within the window."""
    machine = case.machine
    found = {}
    for name in machine.names(_NET):
        if name in case.items("interfaces") or _is_up(machine, name):
            found[f"{name} carrier_down_count"] = _count(machine, f"{_NET}/{name}/carrier_down_count")
    if not found:
        raise NotApplicableError("no physical interface is set up")
    return _flaps(case, found)


def _flaps(case: Case, found: dict[str, int]) -> Finding:
    limits = dict.fromkeys(found, case.number("flaps_max"))
    return counters.judge(found, limits, case.number("window_seconds"), case.kept(), case.machine.now())


def _port_counters(machine: Machine, names: list[str]) -> dict[str, int]:
    ports = infiniband_ports(machine)
    if not ports:
        raise UnknownError("no InfiniBand port is there")
    return {
        f"{port.name} {name}": _count(machine, f"{_INFINIBAND}/{port.name.replace('/', '/ports/')}/counters/{name}")
        for port in ports
        for name in names
    }


def _is_up(machine: Machine, name: str) -> bool:
    if not machine.target(f"{_NET}/{name}/device"):
        return False
    try:
        return bool(int(_line(machine, f"{_NET}/{name}/flags"), 16) & 1)
    except ValueError:
        return False


def _count(machine: Machine, path: str) -> int:
    text = _line(machine, path)
    if not text.isdigit():
        raise UnknownError(f"{path} holds {text!r}, not a count")
    return int(text)


def _line(machine: Machine, path: str) -> str:
    try:
        return machine.read(path).strip()
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
