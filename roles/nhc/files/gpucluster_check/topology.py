# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology file that NCCL reads: there, readable for NCCL, and of this kind of machine."""

from __future__ import annotations

import re
import typing as t
import xml.etree.ElementTree as ET

from .verdict import Finding, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case

_BUSID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")


def check(case: Case) -> Finding:
    """Check the file against the PCI addresses and NUMA nodes of the record."""
    path = case.text("path")
    devices = case.value("devices")
    try:
        text = case.machine.read(path)
    except FileNotFoundError:
        return unhealthy(f"the topology file {path}", "no such file")
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
    return judge(path, text, {str(busid).lower(): int(numa) for busid, numa in dict(devices).items()})


def judge(path: str, text: str, devices: dict[str, int]) -> Finding:
    """Compare the text of the file with the NUMA node of each device."""
    fault = _form(text)
    if fault:
        return unhealthy(f"{path} in the form that NCCL reads", fault)
    try:
        # The file is root's own; expat refuses entity bombs, and _form() has refused any DOCTYPE.
        root = ET.fromstring(text)  # noqa: S314
    except ET.ParseError as exc:
        return unhealthy(f"{path} in the form that NCCL reads", f"damaged XML: {exc}")
    if root.tag != "system" or root.get("version") != "1":
        return unhealthy(f'{path} with <system version="1">', f"<{root.tag} version={root.get('version')!r}>")
    faults = _devices(root, devices)
    return (
        unhealthy(f"{path} with every device on its NUMA node", listing(faults))
        if faults
        else healthy(f"{path} names {len(devices)} devices")
    )


def _form(text: str) -> str:
    """Return what NCCL's own parser would refuse, or nothing."""
    if not text.strip():
        return "an empty file"
    for part, words in (
        ("<?xml", "an XML prolog"),
        ("<!DOCTYPE", "a DOCTYPE"),
        ("\t", "a TAB"),
        ("\ufeff", "a byte order mark"),
    ):
        if part in text:
            return words
    return ""


def _devices(root: ET.Element, devices: dict[str, int]) -> list[str]:
    places: dict[str, list[str]] = {}
    faults = []
    for cpu in root.iter("cpu"):
        for pci in cpu.iter("pci"):
            busid = pci.get("busid", "")
            places.setdefault(busid.lower(), []).append(cpu.get("numaid", ""))
            if not _BUSID.fullmatch(busid):
                faults.append(f"bus id {busid!r}, which NCCL does not match")
    for busid, numa in sorted(devices.items()):
        found = places.get(busid, [])
        if found != [str(numa)]:
            faults.append(f"{busid} on NUMA {'/'.join(found) or 'nothing'} instead of {numa}")
    return faults
