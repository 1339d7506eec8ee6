# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs under the names of DCGM, from the simulated nvidia-smi."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, gpu, live, text
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLASSES = {"application": [13, 31], "warn": [63, 94]}


class Files(Host):
    """A machine with these files."""

    def __init__(self, files: dict[str, str] | None = None) -> None:
        super().__init__(lambda *_args: (127, "", ""))
        self.files = files or {}

    def read(self, path: str) -> str:
        return self.files.get(path, "")


def found(simulated: SimulatedSmi, host: Host | None = None) -> dict[tuple[str, str], text.Sample]:
    samples = gpu.samples(NvidiaSmi(simulated), host or Files())
    return {(one.name, one.labels["gpu"]): one for one in samples}


def test_each_gpu_has_each_figure_after_one_start() -> None:
    simulated = SimulatedSmi(busy=True)

    samples = found(simulated)

    assert len(simulated.calls) == 1
    assert {name for name, _gpu in samples} == set(gpu.SERIES)
    assert {index for _name, index in samples} == set("01234567")
    assert samples["DCGM_FI_DEV_GPU_UTIL", "3"].value == 100
    assert samples["DCGM_FI_DEV_GPU_TEMP", "3"].value == 34
    assert samples["DCGM_FI_DEV_POWER_USAGE", "3"].value == 81.11
    assert samples["DCGM_FI_DEV_ROW_REMAP_PENDING", "3"].value == 0


@pytest.mark.parametrize(
    ("field", "cell", "name", "value"),
    [
        ("remapped_rows.pending", "Yes", "ROW_REMAP_PENDING", 1),
        ("clocks_event_reasons.active", "0x0000000000000048", "CLOCK_THROTTLE_REASONS", 0x48),
        ("ecc.errors.uncorrected.volatile.dram", "4", "ECC_DBE_VOL_TOTAL", 4),
        ("temperature.gpu", "97", "GPU_TEMP", 97),
    ],
)
def test_a_fault_is_a_figure(field: str, cell: str, name: str, value: float) -> None:
    samples = found(SimulatedSmi(values={"2": {field: cell}}))

    assert samples[f"DCGM_FI_DEV_{name}", "2"].value == value
    assert samples[f"DCGM_FI_DEV_{name}", "1"].value != value


@pytest.mark.parametrize("cell", ["[N/A]", "N/A", "[Unknown Error]", "[Not Supported]", ""])
def test_a_figure_that_is_missing_is_never_0(cell: str) -> None:
    samples = found(SimulatedSmi(values={"2": {"utilization.gpu": cell}}))

    assert ("DCGM_FI_DEV_GPU_UTIL", "2") not in samples
    assert ("DCGM_FI_DEV_GPU_UTIL", "1") in samples


def test_half_of_a_sum_is_no_figure() -> None:
    samples = found(SimulatedSmi(values={"2": {"ecc.errors.uncorrected.volatile.sram": "[N/A]"}}))

    assert ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "2") not in samples


def test_the_device_file_has_slurms_number_not_that_of_nvidia_smi() -> None:
    simulated = SimulatedSmi()
    address = next(iter(found(simulated).values())).labels["pci_bus_id"]
    path = f"/proc/driver/nvidia/gpus/{address[-12:].lower()}/information"

    swapped = found(simulated, Files({path: "Model: \t\t NVIDIA H200\nDevice Minor: \t 7\n"}))

    assert swapped["DCGM_FI_DEV_GPU_UTIL", "0"].labels["device"] == "nvidia7"
    assert swapped["DCGM_FI_DEV_GPU_UTIL", "1"].labels["device"] == "nvidia1"


def test_no_driver_is_an_error_not_an_empty_answer() -> None:
    with pytest.raises(NvidiaSmiError):
        found(SimulatedSmi(faults={"no_driver": True}))


def test_xids_are_counted_by_class() -> None:
    line = "[   12.5] NVRM: Xid (PCI:0000:1b:00): {}, pid=7, name=python"
    log = [line.format(79), line.format(79), line.format(13), line.format(63), "[ 1.0] usb: hello"]

    samples = gpu.xids(log, t.cast("t.Any", CLASSES))

    assert [(one.labels["xid"], one.labels["severity"], one.value) for one in samples] == [
        ("13", "application", 1),
        ("63", "warn", 1),
        ("79", "fault", 2),
    ]


def test_the_page_escapes_what_a_label_may_hold() -> None:
    page = text.render(
        [text.sample("a_total", 1), text.sample("b", 0.5, reason='say "no"\\\n'), text.sample("a_total", 2)]
    )

    assert page == '# TYPE a_total gauge\na_total 1\na_total 2\n# TYPE b gauge\nb{reason="say \\"no\\"\\\\\\n"} 0.5\n'


@pytest.mark.parametrize(
    ("field", "cell", "name"),
    [
        ("temperature.gpu", "0x", "GPU_TEMP"),
        ("temperature.gpu", "0x22", "GPU_TEMP"),
        ("utilization.gpu", "Yes", "GPU_UTIL"),
        ("clocks_event_reasons.active", "48", "CLOCK_THROTTLE_REASONS"),
        ("ecc.errors.uncorrected.volatile.dram", "O", "ECC_DBE_VOL_TOTAL"),
    ],
)
def test_a_cell_in_the_form_of_another_field_is_no_figure(field: str, cell: str, name: str) -> None:
    samples = found(SimulatedSmi(values={"2": {field: cell}}))

    assert (f"DCGM_FI_DEV_{name}", "2") not in samples
    assert (f"DCGM_FI_DEV_{name}", "1") in samples


@pytest.mark.parametrize("damage", [lambda rows: f"\ufeff{rows}", lambda rows: f"{rows}{rows.splitlines()[2]}\n"])
def test_a_damaged_or_doubled_row_is_no_series(damage: Callable[[str], str]) -> None:
    simulated = SimulatedSmi()

    def damaged(argv: Sequence[str]) -> tuple[int, str, str]:
        code, out, err = simulated(argv)
        return code, damage(out), err

    with pytest.raises(ParseError):
        gpu.samples(NvidiaSmi(damaged), Files())


def test_a_line_that_is_not_understood_is_counted_as_such() -> None:
    line = "4,1,1000,-;NVRM: Xid (PCI:0000:01:00): 7g, pid=1"

    assert [(one.labels["kind"], one.labels["severity"], one.value) for one in gpu.xids([line], CLASSES)] == [
        ("unreadable", "warn", 1)
    ]


PAGE = """# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="%s",device="nvidia0",modelName="NVIDIA \\"H100\\""} 71
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="%s",device="nvidia0"} 0.25
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",UUID="%s"} 4 1700000000000
go_goroutines 12
"""
TCP = (
    "  sl  local_address rem_address   st\n"
    "   0: 00000000:24B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  {uid}        0 1 1\n"
)


def test_dcgms_exporter_is_completed_and_never_doubled() -> None:
    ours = gpu.samples(NvidiaSmi(SimulatedSmi()), Files())
    uuid = next(one.labels["UUID"] for one in ours if one.labels["gpu"] == "0")

    given = gpu.dcgm(PAGE % (uuid, uuid, uuid))
    both = gpu.filled(given, ours)

    first = {one.name: one.value for one in both if one.labels["gpu"] == "0"}
    assert [one.name for one in given] == [one.name for one in both[: len(given)]]
    assert given[0].labels["modelName"] == 'NVIDIA "H100"'
    assert (first["DCGM_FI_DEV_GPU_TEMP"], first["DCGM_FI_PROF_SM_ACTIVE"]) == (71, 0.25)
    assert "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" not in first
    assert first["DCGM_FI_DEV_ROW_REMAP_PENDING"] == 0
    assert len({(one.name, one.labels["gpu"]) for one in both}) == len(both) == len(ours) + 1


@pytest.mark.parametrize(("uid", "asked"), [("0", [gpu.DCGM]), ("2001", [])])
def test_the_collector_asks_dcgm_where_it_runs(uid: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A user can listen on this port where DCGM's exporter does not run."""
    urls: list[str] = []

    def page(url: str) -> str:
        urls.append(url)
        return PAGE % ("GPU-0", "GPU-0", "GPU-0")

    monkeypatch.setattr(live, "text", page)
    host = Files({"/proc/net/tcp": TCP.format(uid=f"{uid:>5}")})

    found = cli.Collectors({"collectors": ["gpu"]}, host, NvidiaSmi(SimulatedSmi())).wanted()["gpu"]()

    assert urls == asked
    assert ("DCGM_FI_PROF_SM_ACTIVE" in {one.name for one in found}) is bool(asked)


@pytest.mark.parametrize(
    "page", ["", "go_goroutines 12\n", "DCGM_FI_DEV_GPU_TEMP{gpu=0} 1\n", PAGE.replace("71", "ERR")]
)
def test_a_page_that_is_not_understood_is_no_figure(page: str) -> None:
    with pytest.raises(ValueError, match=r"DCGM|could not convert"):
        gpu.dcgm(page)


@pytest.mark.parametrize("value", ["nan", "inf", "0x1F", "N/A", "71,0", "71 C"])
def test_a_figure_of_dcgm_that_is_no_number_is_refused(value: str) -> None:
    line = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1"} '

    assert [one.value for one in gpu.dcgm(f"# HELP DCGM_\n{line}71\n{line}7.1e+01\n")] == [71, 71]
    for row in (f"{line}{value}\n", f"\ufeff{line}72\n", f"x{line}72\n", f"{line}7", line.replace("0", "0x") + "7\n"):
        with pytest.raises(ValueError, match="DCGM's exporter printed"):
            gpu.dcgm(f"{line}71\n{row}")


@pytest.mark.parametrize(("uid", "runs"), [("0", True), ("997", True), ("1000", False), ("22078", False)])
def test_dcgm_is_found_if_the_system_listens_and_no_user(uid: str, runs: bool) -> None:
    assert gpu.dcgm_runs(Files({"/proc/net/tcp6": TCP.format(uid=f"{uid:>5}")})) == runs
    assert not gpu.dcgm_runs(Files({"/proc/net/tcp": TCP.format(uid="    0").replace("24B8", "24B9")}))
    assert not gpu.dcgm_runs(Files())
