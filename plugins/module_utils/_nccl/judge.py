# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check a topology file as NCCL does, and for the faults that NCCL does not report.

NCCL ignores a file that it cannot find or parse, with one line in its log. It uses a file with wrong contents, and the
job runs slowly. So findings have one of four severities.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import topology_xml

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl.topology_xml import Element

FATAL = "fatal"  # NCCL stops, or crashes
IGNORED = "ignored"  # NCCL reads the file and uses nothing of it
FAULT = "fault"  # NCCL uses it, and the job suffers
NOTE = "note"  # unusual, without known harm

BUS_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
# NCCL compares these words with the start of the value. All other values count as generation 3.
_SPEED = re.compile(r"(2\.5|5|8|16|32) GT/s|(2\.5|5\.0|8\.0|16\.0|32\.0|64\.0) GT/s PCIe")
_MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{1,8})*", re.IGNORECASE)
_ARCHITECTURES = ("x86_64", "arm64", "ppc64")
_NUMBER = re.compile(r"\s*[+-]?(0x[0-9a-f]+|[0-9]+)", re.IGNORECASE)
_FOUND_BY_NCCL = ("gpu", "nic", "net", "nvlink", "c2c", "pcilink")


class Finding(t.NamedTuple):
    """One finding about a file, with its line number."""

    severity: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the finding as a sentence."""
        return f"line {self.line}: {self.text}" if self.line else self.text


class Judged(t.NamedTuple):
    """A file and its findings. O(system) is empty unless NCCL would use the file."""

    system: Element | None
    findings: list[Finding]

    def of(self, *severities: str) -> list[str]:
        """Return the findings of the given severities as sentences."""
        return [str(finding) for finding in self.findings if finding.severity in severities]


def judge(text: str) -> Judged:
    """Check a topology file alone, without the machine."""
    try:
        top = topology_xml.parse(text)
    except topology_xml.NcclXmlError as exc:
        return Judged(None, [Finding(FATAL, 0, str(exc))])
    if not top.children:
        return Judged(None, [Finding(IGNORED, 0, "the file has no element: NCCL ignores it without an error")])
    systems = [element for element in top.children if element.read]
    if not systems:
        return Judged(None, [Finding(IGNORED, top.children[0].line, _foreign(top.children[0].name))])
    system = systems[0]
    findings = [finding for each in systems for finding in _version(each)]
    findings += [Finding(FAULT, each.line, "a second <system>: NCCL uses the first alone") for each in systems[1:]]
    findings += [finding for rule in _RULES for finding in rule(system)]
    order = (FATAL, IGNORED, FAULT, NOTE)
    return Judged(system, sorted(findings, key=lambda finding: (order.index(finding.severity), finding.line)))


def devices(system: Element) -> dict[str, tuple[Element, Element]]:
    """Return every PCI device that is not a bridge, by bus id, with its cpu."""
    found: dict[str, tuple[Element, Element]] = {}
    for cpu in system.children:
        if cpu.name == "cpu":
            for element in cpu.walk():
                if element.name == "pci" and not is_bridge(element):
                    found.setdefault(element.get("busid") or "", (element, cpu))
    return found


def is_bridge(pci: Element) -> bool:
    """Return whether a pci element is a bridge or switch."""
    return (pci.get("class") or "").startswith("0x0604") or any(child.name == "pci" for child in pci.children)


def is_gpu(pci: Element) -> bool:
    """Return whether a pci element is a GPU."""
    return (pci.get("class") or "").startswith("0x03")


def is_nic(pci: Element) -> bool:
    """Return whether a pci element is a network adapter."""
    return (pci.get("class") or "").startswith("0x02")


def mask_bits(mask: str) -> int | None:
    """Return the bits of an affinity, or None if NCCL would read another value."""
    if not _MASK.fullmatch(mask):
        return None
    bits = 0
    for group in mask.split(","):
        bits = bits << 32 | int(group, 16)
    return bits


def _foreign(name: str) -> str:
    if name == "graph" or name == "graphs":
        return "this is a graph file, for NCCL_GRAPH_FILE: as a topology file NCCL ignores it without an error"
    return f"the first element is <{name}>, it must be <system>: NCCL ignores the file without an error"


def _version(system: Element) -> Iterator[Finding]:
    version = system.get("version")
    if version is None or _number(version) != 1:
        found = "is missing" if version is None else f"is {version!r}"
        yield Finding(FATAL, system.line, f"version of <system> {found}, it must be '1'")


def _number(text: str) -> int:
    """Return a number as C reads it: ignore characters after the digits, and read a string without digits as 0."""
    found = _NUMBER.match(text)
    if not found:
        return 0
    digits = found[1].lower()
    octal = re.match("0[0-7]*", digits)
    value = int(digits, 16) if digits.startswith("0x") else int(octal[0], 8) if octal else int(digits)
    return -value if "-" in found[0] else value


def _attributes(system: Element) -> Iterator[Finding]:
    for element in system.walk():
        names = [name for name, _value in element.attributes]
        if "" in names:
            yield Finding(
                NOTE,
                element.line,
                f"<{element.name}> has a blank too many (before / or >, or two in a row): NCCL makes an attribute "
                "without a name of it, which uses one of 16 places and breaks its own dump",
            )
        for name in (name for name in names if "\t" in name):
            yield Finding(FAULT, element.line, f"<{element.name}> has a tab in the name {name!r}, part of it for NCCL")
        for name in sorted({name for name in names if name and names.count(name) > 1}):
            yield Finding(FAULT, element.line, f"<{element.name}> has {name} more than once: NCCL uses the first")
        yield from _values(element)


def _values(element: Element) -> Iterator[Finding]:
    for name, value in element.attributes:
        if any(char in value for char in "&<>\"'\t\n\r"):
            yield Finding(FAULT, element.line, f"{name} is {value!r}, which NCCL takes as it stands, entities and all")


def _cpus(system: Element) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    taken = 0
    for cpu in (child for child in system.children if child.name == "cpu"):
        node = cpu.get("numaid")
        if node is None:
            yield Finding(FATAL, cpu.line, "<cpu> has no numaid")
        elif node in seen:
            yield Finding(FAULT, cpu.line, f"NUMA node {node} is already in line {seen[node]}")
        seen.setdefault(node or "", cpu.line)
        if node is not None and not re.fullmatch(r"-?\d+", node):
            yield Finding(FAULT, cpu.line, f"numaid is {node!r}, it must be a number")
        yield from _cpu_model(cpu)
        bits = yield from _affinity(cpu)
        if bits & taken:
            yield Finding(FAULT, cpu.line, f"affinity of NUMA node {node} overlaps that of another node")
        taken |= bits


def _cpu_model(cpu: Element) -> Iterator[Finding]:
    arch = cpu.get("arch")
    if arch is not None and arch not in _ARCHITECTURES:
        yield Finding(FAULT, cpu.line, f"arch is {arch!r}, NCCL knows {', '.join(_ARCHITECTURES)}")
    missing = [name for name in ("affinity", "arch", "vendor", "familyid", "modelid") if cpu.get(name) is None]
    if missing:
        text = f"<cpu> has no {', '.join(missing)}: NCCL asks the machine, and fails if it has none of the devices"
        yield Finding(NOTE, cpu.line, text)


def _affinity(cpu: Element) -> t.Generator[Finding, None, int]:
    mask = cpu.get("affinity")
    if mask is None:
        return 0
    bits = mask_bits(mask)
    if bits is None:
        yield Finding(
            FAULT,
            cpu.line,
            f"affinity is {mask!r}: it must be hexadecimal groups of at most 8 digits joined by commas; "
            "NCCL reads no CPUs, or others, from this",
        )
        return 0
    if not bits:
        yield Finding(FAULT, cpu.line, f"affinity is {mask!r}, which holds no CPU")
    return bits


def _pcis(system: Element) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for element in system.walk():
        if element.name != "pci":
            continue
        bus = element.get("busid")
        if bus is None or not BUS_ID.fullmatch(bus):
            found = "no busid" if bus is None else f"busid {bus!r}"
            yield Finding(
                FAULT,
                element.line,
                f"<pci> has {found}: it must look like 0001:00:00.0 in lower case, or NCCL adds the device again, "
                "away from its NUMA node",
            )
        elif bus in seen:
            yield Finding(FAULT, element.line, f"{bus} is already in line {seen[bus]}")
        seen.setdefault(bus or "", element.line)
        yield from _link(element)


def _link(pci: Element) -> Iterator[Finding]:
    bus = pci.get("busid")
    if pci.get("class") is None and is_bridge(pci):
        yield Finding(FATAL, pci.line, f"<pci> {bus} has no class, a switch needs it")
    elif pci.get("class") is None:
        yield Finding(NOTE, pci.line, f"<pci> {bus} has no class: NCCL asks the machine")
    speed, width = pci.get("link_speed"), pci.get("link_width")
    if speed is None or width is None:
        yield Finding(NOTE, pci.line, f"<pci> {bus} has no link_speed or link_width: NCCL asks the machine")
    if speed is not None and not _SPEED.match(speed):
        text = f"link_speed is {speed!r}, which NCCL takes for generation 3; write it as '32.0 GT/s PCIe'"
        yield Finding(FAULT, pci.line, text)
    if width is not None and not width.isdigit():
        yield Finding(FAULT, pci.line, f"link_width is {width!r}, it must be a number such as 16")


def _nvlinks(system: Element) -> Iterator[Finding]:
    known = {element.get("busid") for element in system.walk() if element.name == "pci"}
    for pci in (element for element in system.walk() if element.name == "pci"):
        links = (link for gpu in pci.children if gpu.name == "gpu" for link in gpu.children if link.name == "nvlink")
        for link in links:
            if link.get("count") is None:
                yield Finding(FATAL, link.line, "<nvlink> has no count")
            yield from _target(link, pci.get("busid"), known)


def _target(link: Element, bus: str | None, known: set[str | None]) -> Iterator[Finding]:
    """
    Check the target of an NVLink.

    NCCL decides by the class of the target. It looks up a target only if its class is that of a GPU. The name of a
    switch does not matter. Without a class, NCCL reads it from the machine, and treats a device that the machine does
    not show as a switch.
    """
    target, of_class = link.get("target"), link.get("tclass")
    if of_class is None and target not in known:
        yield Finding(NOTE, link.line, f"NVLink to {target} has no tclass: NCCL asks the machine")
    elif of_class is not None and not of_class.startswith("0x03"):
        return
    elif target == bus:
        text = f"NVLink of {target} leads to the GPU itself: NCCL then sends over PCIe, at a fraction"
        yield Finding(FAULT, link.line, text)
    elif target not in known:
        text = f"NVLink leads to {target}, which is not in the file: NCCL then sends over PCIe"
        yield Finding(FAULT, link.line, text)


def _contents(system: Element) -> Iterator[Finding]:
    if not any(element.name == "pci" and is_gpu(element) for element in system.walk()):
        yield Finding(FAULT, system.line, "the file names no GPU, which is a <pci> of class 0x03...")
    for element in system.walk():
        if element.name in _FOUND_BY_NCCL:
            text = f"<{element.name}> should be removed: NCCL finds it by itself, and a wrong one costs much"
            yield Finding(NOTE, element.line, text)
        for child in (child for child in element.children if not child.read):
            yield Finding(NOTE, child.line, f"<{child.name}> means nothing to NCCL in <{element.name}>")


_RULES: tuple[Callable[[Element], Iterator[Finding]], ...] = (
    _attributes,
    _cpus,
    _pcis,
    _nvlinks,
    _contents,
)
