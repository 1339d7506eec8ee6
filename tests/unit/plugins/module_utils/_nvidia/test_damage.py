# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Damaged output of nvidia-smi and of the kernel: what is not understood is unknown and said, and never counts as a value.

docs/testing.md explains the kinds of damage that no reader can see.
"""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import nvlink as health_nvlink
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import readings, xid
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import UnhealthyError, UnknownError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import gpu as monitoring
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import query_csv, query_xml, topo, values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, Report
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.simulation.nvidia_simulation import cli
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health.machines import FakeMachine, says
from ansible_collections.hpcai.gpucluster.tests.unit.support.nvidia_reports import only
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import ROOT

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Values = dict[str, t.Any]
    Damage = Callable[[str, random.Random], str]

SEEDS = range(12)
FIXTURES = Path(__file__).parents[3] / "fixtures"
SMI = FIXTURES / "nvidia_smi/580.159.04"
H200 = {"driver": "580.159.04", "gpus": {"model": "H200", "count": 4}, "persistence": True}
# What was asked for in h200-x4-query-nounits.csv
RECORDED = [
    "timestamp",
    "index",
    "name",
    "uuid",
    "serial",
    "pci.bus_id",
    "driver_version",
    "persistence_mode",
    "pstate",
    "clocks.current.graphics",
    "clocks.current.sm",
    "clocks.current.memory",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "clocks.default_applications.graphics",
    "clocks.default_applications.memory",
    "clocks.max.graphics",
    "clocks.max.sm",
    "clocks.max.memory",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "power.default_limit",
    "power.min_limit",
    "power.max_limit",
    "mig.mode.current",
    "mig.mode.pending",
    "ecc.mode.current",
    "compute_mode",
    "clocks_throttle_reasons.active",
    "clocks_event_reasons.active",
    "pcie.link.gen.current",
    "pcie.link.width.current",
]
LOG = """\
6,1,1000000,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04
4,2,2000000,-;NVRM: Xid (PCI:0000:4b:00): 79, pid=1234, GPU has fallen off the bus.
4,3,3000000,-;NVRM: Xid (PCI:0000:4c:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
4,4,4000000,-;nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
6,5,5000000,-;usb 1-1: new high-speed USB device number 2
"""


def _simulated(*options: str) -> str:
    return cli.run(list(options), H200, {})[1]


def _asked(what: str, fields: t.Iterable[str]) -> str:
    return _simulated(f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")


def _flat(value: t.Any, place: str = "") -> Iterator[tuple[str, t.Any]]:
    """Yield every value below a value, with its place."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{place}/{key}")
    else:
        yield place, value


def _report(report: Report) -> tuple[Values, list[str]]:
    gpus = {str(gpu["pci_bus_id"] or gpu["uuid"]): gpu for gpu in report.gpus}
    known = {"driver_version": report.driver_version, "cuda_version": report.cuda_version, "attached": report.attached}
    faults = [fault for gpu in report.gpus for fault in gpu.pop("faults")]
    return dict(_flat({**known, "gpus": gpus})), [*report.notes, *map(str, report.lost), *faults]


def _judged(row: dict[str, str]) -> Values:
    """Return the cells of a row as the health checks read them, with the forms that the recorded row has."""
    gpu, found = readings.Gpu(row), dict[str, t.Any](row)
    for field in row:
        read = gpu.bits if field.endswith(".active") else gpu.flag if "mode" in field else gpu.number
        if field not in ("timestamp", "name", "uuid", "serial", "pci.bus_id", "pstate", "compute_mode"):
            try:
                found[field] = values.version(row[field]) if field == "driver_version" else read(field)
            except UnknownError:
                found[field] = None
    return found


def _table(text: str) -> tuple[Values, list[str]]:
    found = query_csv.table(text, RECORDED)
    return dict(_flat({"gpus": {row["pci.bus_id"]: _judged(row) for row in found.rows}})), found.warnings


def _samples(text: str) -> tuple[Values, list[str]]:
    smi = NvidiaSmi(lambda _args: (0, text, ""))
    found = monitoring.samples(smi, Host(lambda *_args: (127, "", "")))
    labels = {f"/gpus/{one.labels['pci_bus_id']}": one.labels for one in found}
    figures = {f"/gpus/{one.labels['pci_bus_id']}/{one.name}": one.value for one in found}
    # A figure that is missing is unknown; a GPU that is missing is not.
    return {**dict.fromkeys(READ_METRICS), **dict(_flat(labels)), **figures}, []


def _links(text: str) -> tuple[Values, list[str]]:
    found = readings.links(FakeMachine({}, {"nvidia-smi": says(text)}), 1, whole=range(4))
    finding = health_nvlink.judge_links(18, found)
    return {"/verdict": f"{finding.status}: {finding.reason}"}, []


def _counters(text: str) -> tuple[Values, list[str]]:
    found = readings.link_errors(FakeMachine({}, {"nvidia-smi": says(text)}), 1, whole=range(4))
    return dict[str, t.Any](found), []


def _events(text: str) -> tuple[Values, list[str]]:
    found = xid.events(text.splitlines())
    odd = [one.key() for one in found if one.kind == xid.UNREADABLE]
    return {f"/events/{one.device}": one for one in found if one.kind != xid.UNREADABLE}, odd


READ_METRICS: list[str] = []  # the figures of the undamaged output
READERS: dict[str, tuple[str, Callable[[str], tuple[Values, list[str]]]]] = {
    "xml": ((SMI / "h200-x4-q.xml").read_text(encoding="utf-8"), lambda text: _report(query_xml.parse(text))),
    "xml of one": (
        only((SMI / "h200-x4-q.xml").read_text(encoding="utf-8"), 1),
        lambda text: _report(query_xml.parse(text)),
    ),
    "table": (
        (SMI / "h200-x4-query-nounits.csv").read_text(encoding="utf-8"),
        _table,
    ),
    "metrics": (_asked("gpu", monitoring.FIELDS), _samples),
    "topology": (
        (SMI / "h200-x4-topo-m.txt").read_text(encoding="utf-8"),
        lambda text: (
            dict(_flat({key: {one["name"]: one for one in rows} for key, rows in topo.parse(text).items()})),
            [],
        ),
    ),
    "links": (
        (FIXTURES / "gpucluster_check/nvidia-smi-nvlink-s-h200-x4-580.159.04.txt").read_text(encoding="utf-8"),
        _links,
    ),
    "counters": (_simulated("nvlink", "-e"), _counters),
    "log": (LOG, _events),
}


READ_METRICS.extend(key for key in _samples(READERS["metrics"][0])[0] if "DCGM" in key)


def _line(text: str, dice: random.Random, change: Callable[[str], str]) -> str:
    lines = text.splitlines(keepends=True)
    place = dice.randrange(len(lines))
    return "".join([*lines[:place], change(lines[place]), *lines[place + 1 :]])


def _digit(text: str, dice: random.Random) -> int:
    return dice.choice([place for place, char in enumerate(text) if char.isdigit()])


def _letter(text: str, dice: random.Random) -> str:
    place = _digit(text, dice)
    return text[:place] + dice.choice("OlSBgx") + text[place + 1 :]


def _err(text: str, dice: random.Random) -> str:
    place = _digit(text, dice)
    return f"{text[:place]}ERR!{text[place + 1 :]}"


def _put(text: str, dice: random.Random, what: str) -> str:
    place = dice.choice([0, dice.randrange(len(text))])
    return text[:place] + what + text[place:]


DAMAGES: dict[str, Damage] = {
    "cut": lambda text, dice: text[: dice.randrange(1, len(text) - 1)],
    "lost row": lambda text, dice: _line(text, dice, lambda _line: ""),
    "doubled row": lambda text, dice: _line(text, dice, lambda line: line + line),
    "letter": _letter,
    "mark": lambda text, dice: _put(text, dice, "\ufeff"),
    "colour": lambda text, dice: _put(text, dice, "\x1b[31m"),
    "error": _err,
}


# The kinds of damage that no reader can see; docs/testing.md says why. The first that applies counts.
EXPLAINED: dict[str, Callable[[str, str, str], bool]] = {
    "text": lambda _name, _damage, key: key.endswith(
        ("/name", "/modelName", "/serial", "/timestamp", "/pstate", "/labels/modelName")
    ),
    "hexadecimal": lambda _name, damage, key: damage == "letter" and ("/gpus/" in key or "/GPU-" in key),
    "row": lambda name, damage, key: (
        damage in ("lost row", "cut") and (name in ("table", "metrics", "log") or "clocks" in key)
    ),
    "absent": lambda name, damage, _key: damage == "lost row" and name.startswith("xml"),
    "head": lambda name, _damage, _key: name == "log",
    "last cell": lambda name, damage, _key: damage == "cut" and name in ("counters", "topology"),
}


def silent(name: str, damage: str, seed: int) -> list[str]:
    """Return the values that differ after some damage, without a word of the reader about it."""
    text, read = READERS[name]
    before, _notes = read(text)
    try:
        after, notes = read(DAMAGES[damage](text, random.Random(f"{name} {damage} {seed}")))
    except (ParseError, NvidiaSmiError, UnknownError, UnhealthyError):
        return []
    changed = [key for key, value in after.items() if value not in (None, {}) and value != before.get(key)]
    return changed + [key for key in before if key not in after and not notes]


def kinds(name: str, damage: str, seed: int) -> set[str]:
    """Return the kinds of the silent values after some damage; a value that nothing explains is its own kind."""
    return {
        next((kind for kind, applies in EXPLAINED.items() if applies(name, damage, key)), f"{key} is not explained")
        for key in silent(name, damage, seed)
    }


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_damage_changes_no_value_without_a_word(name: str, damage: str) -> None:
    found = set().union(*(kinds(name, damage, seed) for seed in SEEDS))

    assert found <= set(EXPLAINED), f"{name}, {damage}: {sorted(found)[:4]}"


def test_the_kinds_that_nobody_sees_are_few_and_explained() -> None:
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")

    assert len(EXPLAINED) <= 10
    assert [kind for kind in EXPLAINED if f"| {kind} |" not in page] == []
