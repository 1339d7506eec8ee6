# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting clocks on simulated machines of several driver generations."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.clocks import ApplyError, Record, apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Refused, Wanted
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandTimeout
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi

if t.TYPE_CHECKING:
    from collections.abc import Sequence

A100 = {"driver": "580.159.04", "gpus": {"model": "A100", "count": 2, "memory_mib": 40960}, "persistence": True}
H200_610 = {"driver": "610.57.04", "gpus": {"model": "H200", "count": 2}, "persistence": True}
NOW = {"boot": "b-1", "driver": "7 x"}


class Bench:
    """A simulated machine and a record file on it."""

    def __init__(self, path: Path, **config: t.Any) -> None:
        self.smi = SimulatedSmi(**config)
        self.record = Record(str(path / "record.json"), dict(NOW))

    def run(self, wanted: Wanted | None = None, check_mode: bool = False, tolerant: bool = False) -> dict[str, t.Any]:
        self.smi.calls.clear()
        return apply(NvidiaSmi(self.smi), wanted or Wanted(), self.record, check_mode, tolerant)


def test_application_clocks_of_an_a100_go_to_the_maximum_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)

    first = bench.run()
    writes = bench.smi.writes
    second = bench.run()

    assert first["changed"]
    assert writes == [["-ac", "1215,1410"]]  # both GPUs in one start
    assert first["gpus"][0]["before"] == {"application_mhz": {"memory": 1215, "graphics": 1095}}
    assert first["gpus"][0]["after"] == {"application_mhz": {"memory": 1215, "graphics": 1410}}
    assert first["diff"]["after"]["GPU 1 (0000:00:07.0)"] == {"application_mhz": {"memory": 1215, "graphics": 1410}}
    assert first["gpus"][0]["msg"] == "changed application_mhz to memory 1215 MHz, graphics 1410 MHz"
    assert not second["changed"]
    assert bench.smi.calls == [["-q", "-x"]]
    assert second["gpus"][0]["msg"] == "already at maximum (memory 1215 MHz, graphics 1410 MHz, application clocks)"
    assert second["diff"] == {"before": {}, "after": {}}


def test_an_h200_is_at_its_maximum_from_the_start(tmp_path: Path) -> None:
    result = Bench(tmp_path, driver="580.159.04", gpus={"model": "H200", "count": 4}, persistence=True).run()

    assert not result["changed"]
    assert "already at maximum (memory 3201 MHz, graphics 1980 MHz" in result["gpus"][3]["msg"]


def test_the_maximum_is_the_best_supported_pair_and_not_clocks_max(tmp_path: Path) -> None:
    bench = Bench(tmp_path, driver="580.159.04", gpus={"model": "RTX 2080", "count": 1}, persistence=True)

    bench.run(tolerant=True)

    assert ["-lgc", "2220,2220"] in bench.smi.writes


def test_check_mode_only_reads_and_says_what_would_change(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)

    result = bench.run(check_mode=True)

    assert result["changed"]
    assert bench.smi.writes == []
    assert result["gpus"][0]["msg"].startswith("would change application_mhz to memory 1215 MHz")
    assert not Path(bench.record.path).exists()


def test_default_undoes_the_maximum(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)
    bench.run()

    first, second = bench.run(Wanted(state="default")), bench.run(Wanted(state="default"))

    assert (first["changed"], second["changed"]) == (True, False)
    assert bench.smi.state["GPU-0a000000-0000-4000-8000-000000000000"] == {}


def test_from_driver_590_clocks_are_locked_and_remembered(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610)

    first = bench.run()
    writes = bench.smi.writes
    second = bench.run()

    assert writes == [["-lmc", "3201,3201"], ["-lgc", "1980,1980"]]
    assert first["gpus"][0]["before"] == {"locked_graphics_mhz": "unknown", "locked_memory_mhz": "unknown"}
    assert not second["changed"]
    assert second["gpus"][0]["msg"] == "already at maximum (memory 3201 MHz, graphics 1980 MHz, locked clocks)"


@pytest.mark.parametrize("stamp", ["boot", "driver"])
def test_after_a_reboot_or_a_driver_reload_nothing_is_taken_for_granted(tmp_path: Path, stamp: str) -> None:
    bench = Bench(tmp_path, **H200_610)
    bench.run()
    bench.smi.state.clear()
    bench.record.stamps[stamp] = "new"

    again = bench.run()

    assert again["changed"]
    assert bench.smi.state["GPU-0a000000-0000-4000-8000-000000000001"]["locked_graphics"] == [1980, 1980]


def test_without_persistence_a_lock_is_never_called_unchanged(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **{**H200_610, "persistence": False})

    first, second = bench.run(), bench.run()

    assert first["changed"]
    assert second["changed"]
    assert "set persistence=true" in second["warnings"][0]


def test_persistence_is_turned_on_before_anything_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **{**H200_610, "persistence": False})

    first = bench.run(Wanted(persistence=True))
    writes = bench.smi.writes
    second = bench.run(Wanted(persistence=True))

    assert writes[0] == ["-pm", "1"]
    assert first["gpus"][0]["after"]["persistence"] is True
    assert not second["changed"]


def test_application_clocks_that_vanish_without_persistence_are_an_error(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **{**A100, "persistence": False})

    with pytest.raises(ApplyError, match="persistence mode is off") as caught:
        bench.run()

    assert not caught.value.result["changed"]


def test_another_lock_is_set_and_then_released(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610)
    bench.run()

    lower = bench.run(Wanted(state="set", graphics=1410, graphics_min=345))
    assert bench.smi.writes == [["-lgc", "345,1410"]]  # the memory lock is as it should be
    assert lower["gpus"][0]["before"] == {"locked_graphics_mhz": [1980, 1980]}

    reset = bench.run(Wanted(state="default"))
    assert bench.smi.writes == [["-rgc"], ["-rmc"]]
    assert reset["gpus"][0]["after"] == {"locked_graphics_mhz": None, "locked_memory_mhz": None}
    assert not bench.run(Wanted(state="default"))["changed"]


def test_known_locks_are_released_before_application_clocks_are_set(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)
    bench.run(Wanted(method="locked"))

    bench.run(Wanted(method="application"))

    assert bench.smi.writes == [["-rgc"], ["-ac", "1215,1410"]]
    assert not bench.run(Wanted(method="application"))["changed"]


def test_a_single_memory_clock_is_not_locked(tmp_path: Path) -> None:
    bench = Bench(tmp_path, driver="580.159.04", gpus={"model": "V100", "count": 1}, persistence=True)

    assert bench.run(Wanted(method="locked"))["changed"]
    assert bench.smi.writes == [["-lgc", "1530,1530"]]


def test_the_power_limit_is_compared_with_a_tolerance(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)

    first = bench.run(Wanted(state="set", power_limit="350"))
    bench.smi.config["values"] = {"*": {"power.limit": "350.30"}}
    second = bench.run(Wanted(state="set", power_limit="350"))

    assert first["gpus"][0]["after"] == {"power_limit_w": 350.0}
    assert not second["changed"]


def test_the_boards_own_power_limits_have_names(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)
    bench.run(Wanted(state="set", power_limit="300"))

    assert bench.run(Wanted(state="set", power_limit="default"))["gpus"][0]["after"] == {"power_limit_w": 400.0}
    assert not bench.run(Wanted(state="set", power_limit="max"))["changed"]


@pytest.mark.parametrize(
    ("config", "wanted", "part"),
    [
        (A100, Wanted(), "application"),
        (H200_610, Wanted(), "locked_graphics"),
        (H200_610, Wanted(), "locked_memory"),
        (A100, Wanted(state="set", power_limit="300"), "power"),
    ],
)
def test_not_supported_with_exit_0_is_told_and_is_no_change(
    tmp_path: Path, config: dict[str, t.Any], wanted: Wanted, part: str
) -> None:
    bench = Bench(tmp_path, **config, faults={"not_supported": [part]})

    with pytest.raises(ApplyError, match="not supported by this GPU"):
        bench.run(wanted)
    bench.run(wanted, tolerant=True)
    second = bench.run(wanted, tolerant=True)

    assert not second["changed"]
    assert any("not supported by this GPU" in line for line in [*second["warnings"], second["gpus"][0]["msg"]])


VIRTUAL = {
    "clocks.applications.graphics": "[N/A]",
    "clocks.applications.memory": "[N/A]",
    "persistence_mode": "[N/A]",
    "power.limit": "[N/A]",
    "power.min_limit": "[N/A]",
    "power.max_limit": "[N/A]",
}


class VirtualSmi(SimulatedSmi):
    """The first GPU is a virtual one, which says N/A to all that its host decides."""

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        code, text, error = super().__call__(args)
        clocks = re.compile("(?<=<supported_clocks>).*?(?=</supported_clocks>)", re.DOTALL)
        return code, clocks.sub("N/A", text, count=1), error


@pytest.mark.parametrize(
    ("wanted", "setting", "text"),
    [
        (Wanted(), "clocks", "setting clocks is not supported by this GPU (it lists no supported clocks)"),
        (Wanted(method="application"), "clocks", "application clocks are not supported by this GPU; set method"),
        (Wanted(state="set", graphics=1410), "clocks", "setting clocks is not supported by this GPU"),
        (Wanted(state="set", power_limit="300"), "power_limit_w", "setting a power limit is not supported by this GPU"),
        (Wanted(state="set", persistence=False), "persistence", "persistence mode is not supported by this GPU or"),
    ],
)
def test_what_a_gpu_does_not_have_is_left_out_where_that_is_tolerated(
    tmp_path: Path, wanted: Wanted, setting: str, text: str
) -> None:
    bench = Bench(tmp_path, **A100, values={"0": VIRTUAL})
    bench.smi = VirtualSmi(**bench.smi.config)
    uuids = ["GPU-0a000000-0000-4000-8000-000000000000", "GPU-0a000000-0000-4000-8000-000000000001"]

    with pytest.raises(Refused, match=re.escape(f"GPU 0 (0000:00:06.0): {text}")):
        bench.run(wanted)
    assert bench.smi.writes == []
    foretold = bench.run(wanted, check_mode=True, tolerant=True)
    first, second = bench.run(wanted, tolerant=True), bench.run(wanted, tolerant=True)

    assert [gpu["changed"] for gpu in foretold["gpus"]] == [gpu["changed"] for gpu in first["gpus"]] == [False, True]
    assert not bench.smi.state.get(uuids[0])
    assert bench.smi.state[uuids[1]]
    assert not second["changed"]
    for result in (foretold, first, second):
        (warning,) = result["warnings"]
        assert warning.startswith(f"GPU 0 (0000:00:06.0): {setting}: not supported by this GPU")
        assert result["gpus"][0]["msg"].startswith(f"{setting}: not supported by this GPU")


def test_a_gpu_without_clocks_still_gets_its_power_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)
    bench.smi = VirtualSmi(**bench.smi.config)

    result = bench.run(Wanted(power_limit="300", persistence=True), tolerant=True)

    assert result["gpus"][0]["after"] == {"power_limit_w": 300.0}
    assert bench.smi.state["GPU-0a000000-0000-4000-8000-000000000000"] == {"power": 300.0}
    assert any("clocks: not supported" in line for line in result["warnings"])


@pytest.mark.parametrize("config", [A100, H200_610])
def test_a_refused_reset_means_that_there_was_nothing_to_reset(tmp_path: Path, config: dict[str, t.Any]) -> None:
    bench = Bench(tmp_path, **config, faults={"not_supported": ["locked_memory", "application"]})

    bench.run(Wanted(state="default"))

    assert not bench.run(Wanted(state="default"))["changed"]


def test_success_text_is_not_proof(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100, faults={"ignored": ["application"]})

    with pytest.raises(ApplyError, match=r"took application_mhz .*1410.* but reads back .*1095") as caught:
        bench.run()

    assert not caught.value.result["changed"]


def test_a_busy_gpu_outside_its_lock_is_a_warning(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610)
    bench.run()
    bench.smi.config.update(busy=True, values={"0": {"clocks.current.sm": "1710"}})

    result = bench.run()

    assert result["warnings"] == [
        "GPU 0 (0000:00:06.0): locked to 1980 to 1980 MHz but busy at 1710 MHz; this GPU does not keep the lock"
    ]


def test_missing_rights_are_said_and_stop_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610, faults={"no_permission": True})

    with pytest.raises(ApplyError, match="needs root with CAP_SYS_ADMIN") as caught:
        bench.run(Wanted(state="set", power_limit="300", graphics=1410))

    assert len(bench.smi.writes) == 1
    assert not caught.value.result["changed"]
    assert not Path(bench.record.path).exists()


def test_only_the_chosen_gpus_are_touched(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100)

    result = bench.run(Wanted(gpus=["0000:00:07.0"]))

    assert [gpu["index"] for gpu in result["gpus"]] == [1]
    assert list(filter(None, bench.smi.state.values())) == [{"application": [1215, 1410]}]


def test_lost_gpus_are_named_while_the_rest_is_set(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100, faults={"lost_gpus": [0]})

    result = bench.run()

    assert [gpu["uuid"][-1] for gpu in result["gpus"]] == ["1"]
    assert result["lost"] == [{"pci_bus_id": "0000:00:06.0", "reason": "Unknown Error"}]
    assert "GPU 0000:00:06.0 is lost: Unknown Error" in result["warnings"]


def test_mig_does_not_stand_in_the_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **A100, faults={"mig": [0]})

    assert bench.run()["changed"]
    assert not bench.run()["changed"]


def test_force_sets_what_is_known_to_be_right(tmp_path: Path) -> None:
    for config in (A100, H200_610):
        bench = Bench(tmp_path, **config)
        bench.run()
        assert bench.run(Wanted(force=True))["changed"]


WISHES = st.builds(
    Wanted,
    state=st.sampled_from(["max", "set", "default"]),
    method=st.sampled_from(["auto", "application", "locked"]),
    memory=st.none() | st.sampled_from([1215, 3201, 5001, 405, 1]),
    graphics=st.none() | st.sampled_from([1410, 1980, 345, 1403, 0]),
    power_limit=st.none() | st.sampled_from(["max", "default", "300", "1e9", ""]),
    persistence=st.none() | st.booleans(),
    gpus=st.none() | st.lists(st.sampled_from(["0", "1", "7", "0:6.0", "x"]), max_size=2),
    graphics_min=st.none() | st.sampled_from([345, 1000, 1980]),
    force=st.just(False),
)
MACHINES = st.fixed_dictionaries(
    {
        "driver": st.sampled_from(["450.248.02", "535.216.03", "580.159.04", "610.57.04"]),
        "gpus": st.fixed_dictionaries(
            {"model": st.sampled_from(["A100", "H200", "T4", "V100", "RTX 2080"]), "count": st.just(2)}
        ),
        "persistence": st.booleans(),
        "faults": st.fixed_dictionaries(
            {
                "not_supported": st.lists(
                    st.sampled_from(["application", "locked_graphics", "locked_memory", "power"]), max_size=2
                ),
                "mig": st.lists(st.integers(0, 1), max_size=1),
            }
        ),
    }
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(machine=MACHINES, wanted=WISHES)
def test_a_second_run_changes_nothing_and_check_mode_foretells_it(
    tmp_path_factory: pytest.TempPathFactory, machine: dict[str, t.Any], wanted: Wanted
) -> None:
    bench = Bench(tmp_path_factory.mktemp("record"), **machine)
    try:
        bench.run(wanted, tolerant=True)
    except (Refused, ApplyError):
        return  # said what is wrong
    foretold = bench.run(wanted, check_mode=True, tolerant=True)
    second = bench.run(wanted, tolerant=True)
    persistent = machine["persistence"] if wanted.persistence is None else wanted.persistence
    unsure = any(gpu["method"] == "locked" for gpu in second["gpus"]) and not persistent

    assert not second["changed"] or unsure
    assert foretold["changed"] or not second["changed"]


def test_a_lock_that_ended_with_persistence_is_set_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610)
    bench.run()
    bench.smi(["nvidia-smi", "-pm", "0"])  # by somebody else; the locks are gone

    assert bench.run(Wanted(persistence=True))["changed"]
    assert bench.smi.state["GPU-0a000000-0000-4000-8000-000000000000"]["locked_graphics"] == [1980, 1980]
    assert not bench.run(Wanted(persistence=True))["changed"]


def test_an_interrupted_run_leaves_nothing_false_in_the_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path, **H200_610)
    bench.run()

    def hang(args: Sequence[str]) -> tuple[int, str, str]:
        answer = bench.smi(args)
        if "-lgc" in args:
            raise CommandTimeout("killed after it had set the clocks")
        return answer

    with pytest.raises(NvidiaSmiError, match="killed"):
        apply(NvidiaSmi(hang), Wanted(state="set", graphics=1410), bench.record, check_mode=False, tolerant=False)

    assert bench.run()["changed"]
    assert bench.smi.state["GPU-0a000000-0000-4000-8000-000000000000"]["locked_graphics"] == [1980, 1980]


def test_a_recorded_h200_at_its_highest_clocks_is_not_set_again(tmp_path: Path) -> None:
    recorded = Path(__file__).parents[3] / "fixtures/nvidia_smi/580.159.04/h200-x4-q.xml"
    calls: list[list[str]] = []

    def smi(args: Sequence[str]) -> tuple[int, str, str]:
        calls.append(list(args)[1:])
        return 0, recorded.read_text(encoding="utf-8"), ""

    record = Record(str(tmp_path / "record.json"), dict(NOW))
    result = apply(NvidiaSmi(smi), Wanted(persistence=True), record, check_mode=False, tolerant=True)

    assert result["gpus"][0]["msg"] == "already at maximum (memory 3201 MHz, graphics 1980 MHz, application clocks)"
    assert calls == [["-q", "-x"]]
