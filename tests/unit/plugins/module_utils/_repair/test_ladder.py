# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which check leads to which steps and to which of Azure's categories, with the reasons of the health check."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.table import CHECKS
from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import ladder
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[5]
LADDER = ROOT / "roles/repair/files/ladder.yml"
RULES = yaml_load(LADDER.read_text(encoding="utf-8"))

RESET = ["gpu_reset", "reboot"]
BOOT = ["reboot"]
XID = "gpu_xid: expected no fatal Xid since boot, found "
ECC = (
    "gpu_ecc: expected ECC Enabled and at most sram corrected 10000, sram uncorrected 0, dram corrected 20000000,"
    " dram uncorrected 0, found "
)
REMAP = (
    "gpu_remap: expected no remap or retirement pending, none failed, at most 512 rows remapped, fewer than 62 pages"
    " retired, found "
)
IB = "infiniband: expected 8 InfiniBand ports ACTIVE/LinkUp at 400 Gb/s, found "
PLANTED = [
    *[(f"{XID}Xid {number} on 0000:43:00", RESET, "GpuXIDError") for number in (46, 62, 109, 110, 119, 120, 136)],
    *[(f"{XID}Xid {number} on 0000:43:00", RESET, "GpuXIDError") for number in (140, 143, 158)],
    *[(f"{XID}Xid {number} on 0000:43:00", RESET, "NvLink") for number in (74, 144, 149, 155)],
    (f"{XID}Xid 48 on 0000:43:00", RESET, "XID48DoubleBitECC"),
    (f"{XID}Xid 94 on 0000:43:00", RESET, "XID94ContainedECCError"),
    (f"{XID}Xid 95 on 0000:43:00 GPU-I:05", RESET, "XID95UncontainedECCError"),
    (f"{XID}Xid 64 on 0000:43:00", RESET, "HpcRowRemapFailure"),
    (f"{XID}Xid 156 on 0000:43:00", RESET, "HpcRowRemapFailure"),
    (f"{XID}Xid 79 on 0000:43:00", BOOT, "XID79FallenOffBus"),
    (f"{XID}Xid 151 on 0000:43:00", BOOT, "GpuXIDError"),
    (f"{XID}Xid 142 on 0000:43:00", [], "GpuXIDError"),
    (f"{XID}Xid 54 on 0000:43:00", [], "GpuXIDError"),
    (f"{XID}Xid 999 on 0000:43:00", BOOT, "GpuXIDError"),
    (f"{XID}SXid 20034 on 0000:c1:00", BOOT, "NvLink"),
    (f"{XID}Xid 154 on 0000:43:00 (Node Reboot Required)", BOOT, "GpuXIDError"),
    (f"{XID}Xid 154 on 0000:43:00 (GPU Reset Required)", RESET, "GpuXIDError"),
    (f"{XID}Xid 154 on 0000:43:00 (Drain and Reset)", RESET, "GpuXIDError"),
    (f"{XID}Xid 154 on 0000:43:00 (Something New)", BOOT, "GpuXIDError"),
    (f"{XID}driver: NV_ERR_RESET_REQUIRED", RESET, "GpuXIDError"),
    (f"{XID}driver: fallen off the bus on 0000:43:00", BOOT, "XID79FallenOffBus"),
    (f"{XID}driver: requiring os reboot", BOOT, "GpuXIDError"),
    (
        "gpu_count: expected GPUs in order, found GPU 1 (x): gpu_recovery_action is Reset",
        RESET,
        "UnhealthyGPUNvidiasmi",
    ),
    ("gpu_count: expected GPUs in order, found GPU 1 (x): gpu_recovery_action is Reboot", BOOT, "HpcMissingGpu"),
    ("gpu_count: expected 8 GPUs, found 7: 00000001:00:00.0", BOOT, "HpcMissingGpu"),
    ("gpu_count: expected GPUs in order, found GPU 1: GPU requires reset", RESET, "UnhealthyGPUNvidiasmi"),
    (
        "gpu_count: expected an answer, found nvidia-smi saying: infoROM is corrupted at gpu 0000:52:00.0",
        [],
        "HpcInforomCorruption",
    ),
    (
        "gpu_count: expected an answer, found nvidia-smi saying: NVML: Driver/library version mismatch",
        BOOT,
        "UnhealthyGPUNvidiasmi",
    ),
    (
        "gpu_count: nvidia-smi gave no answer within 10 s (2 samples in a row)",
        BOOT,
        "UnhealthyGPUNvidiasmi",
    ),
    ("gpu_model: expected 81559 MiB, found GPU 2: 40960 MiB", BOOT, "HpcMissingGpu"),
    ("gpu_persistence: expected persistence mode on", ["service nvidia-persistenced", "reboot"], "HpcGenericFailure"),
    ("gpu_clocks: expected 1980 MHz, found GPU 4: 1200 MHz", ["service gpucluster-gpu", "reboot"], "HpcGenericFailure"),
    (f"{ECC}00000000:52:00.0 4 uncorrected in DRAM", RESET, "XID48DoubleBitECC"),
    (f"{ECC}00000000:52:00.0 1 uncorrected in SRAM", RESET, "XID48DoubleBitECC"),
    (f"{ECC}00000000:52:00.0 20000 corrected in SRAM", RESET, "HpcGenericFailure"),
    (f"{ECC}00000000:52:00.0 ECC Disabled", BOOT, "HpcGenericFailure"),
    (f"{REMAP}00000000:52:00.0 remapped_rows.pending Yes", RESET, "HpcRowRemapFailure"),
    (f"{REMAP}00000000:52:00.0 remapped_rows.failure Yes", [], "HpcRowRemapFailure"),
    (f"{REMAP}00000000:52:00.0 600 rows remapped", [], "HpcRowRemapFailure"),
    (f"{REMAP}00000000:52:00.0 retired_pages.pending Yes", BOOT, "ECCPageRetirementTableFull"),
    (f"{REMAP}00000000:52:00.0 70 pages retired", [], "ECCPageRetirementTableFull"),
    ("gpu_throttle: expected no throttling, found GPU 1: hardware slowdown", BOOT, "HpcDcgmiThermalReport"),
    ("gpu_temperature: expected 93 C, found GPU 4: 97 C", [], "HpcDcgmiThermalReport"),
    ("gpu_pcie: expected width 16, found GPU 5: 8", BOOT, "HpcGenericFailure"),
    ("gpu_fabric: expected Completed", ["service nvidia-fabricmanager", "reboot"], "NvLink"),
    ("nvlink: expected 18 NVLinks up per GPU, found GPU 6: 17", RESET, "NvLink"),
    ("nvlink_errors: expected less, found GPU 0: Replay Errors", RESET, "NvLink"),
    ("dcgm_health: expected no failure", BOOT, "HpcGpuDcgmDiagFailure"),
    ("host_to_device: expected 40 GB/s, found 12 GB/s", BOOT, "GPUMemoryBWFailure"),
    ("nvlink_allreduce: expected 400 GB/s, found 200 GB/s", RESET, "NvLink"),
    (f"{IB}7 ports", BOOT, "MissingIB"),
    (f"{IB}mlx5_3 missing", BOOT, "MissingIB"),
    (f"{IB}mlx5_0 1 DOWN/Polling", BOOT, "IBPortDown"),
    ("infiniband_errors: expected less, found mlx5_0 symbol_error", [], "IBPerformance"),
    ("infiniband_flaps: expected 2, found 5", [], "IBPortFlapping"),
    ("infiniband_bandwidth: expected 380 Gb/s, found 200", BOOT, "IBPerformance"),
    ("memory: expected 1900000 MiB, found 1700000 MiB", BOOT, "HpcGenericFailure"),
    ("cpus: expected 96, found 95", BOOT, "CPUPerformance"),
    ("mounts: expected /home, found nothing", ["service remote-fs.target", "reboot"], "HpcGenericFailure"),
    ("filesystems: expected 90 %, found /: 97 %", [], "HpcGenericFailure"),
    ("clock: expected a synchronised clock, found no", ["service chrony", "reboot"], "HpcGenericFailure"),
    ("leftovers: expected none, found 3", ["reboot"], "HpcGenericFailure"),
    ("nhc: expected the site's checks to pass, found ERROR", [], "HpcGenericFailure"),
    ("brand_new: expected x, found y", [], "ManualInvestigation"),
]
# https://learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-categories, without their first words
CATEGORIES = {
    *("HpcMissingGpu", "MissingIB", "IBPerformance", "IBPortDown", "IBPortFlapping", "HpcGpuDcgmDiagFailure"),
    *("HpcRowRemapFailure", "HpcInforomCorruption", "HpcGenericFailure", "ManualInvestigation"),
    *("XID95UncontainedECCError", "XID94ContainedECCError", "XID79FallenOffBus", "XID48DoubleBitECC"),
    *("UnhealthyGPUNvidiasmi", "NvLink", "HpcDcgmiThermalReport", "ECCPageRetirementTableFull", "DBEOverLimit"),
    *("GpuXIDError", "AmdGpuResetFailed", "EROTFailure", "GPUMemoryBWFailure", "CPUPerformance"),
}


@pytest.mark.parametrize(("said", "steps", "category"), PLANTED, ids=lambda value: str(value)[:50])
def test_a_planted_fault_leads_to_its_steps(said: str, steps: list[str], category: str) -> None:
    found = ladder.plan(f"NHC: {said}", RULES)

    assert list(found.steps) == steps
    assert found.categories == (f"Resource.Hpc.Unhealthy.{category}",)


def test_there_are_enough_planted_pairs() -> None:
    assert len(PLANTED) >= 40


def test_every_check_of_the_health_program_has_a_rule_and_every_rule_a_check() -> None:
    found, wanted = {rule["check"] for rule in RULES}, {*CHECKS, "*"}
    others, row = place(LADDER, "check: '*'"), place("docs/repair.md", "a check that the table does not have")

    expect_none(
        [
            f"{others}: add above it the rule  - {{check: {name}, steps: [reboot, or none for a person], category: "
            f'HpcGenericFailure, source: "ours: the reason"}}, and name `{name}` in the table of {row}'
            for name in sorted(wanted - found)
        ]
        + [
            f"{place(LADDER, f'check: {name},')}: remove the rule, because there is no check {name}"
            for name in sorted(found - wanted)
        ]
    )


def test_every_rule_is_usable_and_names_a_category_of_azure() -> None:
    ladder.check_rules(RULES)

    assert {rule["category"] for rule in RULES} <= CATEGORIES
    assert all(rule["source"] for rule in RULES)


@pytest.mark.parametrize(
    ("said", "steps"),
    [
        # A reboot restarts the service and resets the GPU, too.
        ("gpu_persistence, gpu_count: expected 8 GPUs, found 7", BOOT),
        ("gpu_persistence, clock: expected x", ["service nvidia-persistenced", "service chrony", "reboot"]),
        (f"{XID}Xid 48 on 0000:43:00, Xid 79 on 0000:52:00", BOOT),
        (f"{XID}Xid 48 on 0000:43:00, Xid 54 on 0000:52:00", []),
        # No reset reaches a GPU that is lost.
        (f"{XID}Xid 48 on 0000:43:00, driver: fallen off the bus on 0000:52:00", BOOT),
        ("filesystems, gpu_count: expected 90 %", []),
        # The reason was too long, so its last name is missing.
        ("gpu_temperature, gpu_pci...", []),
    ],
)
def test_several_faults_share_one_ladder(said: str, steps: list[str]) -> None:
    assert list(ladder.plan(f"NHC: {said}", RULES).steps) == steps


@pytest.mark.parametrize(
    "rule",
    [
        {"check": "x", "category": "c", "source": "s"},
        {"check": "x", "steps": ["redeploy"], "category": "c", "source": "s"},
        {"check": "x", "steps": ["reboot", "gpu_reset"], "category": "c", "source": "s"},
        {"check": "x", "steps": ["reboot"], "category": "c", "source": "s", "match": "("},
        {"check": "x", "steps": "reboot", "category": "c", "source": "s"},
        {"check": "x", "steps": [3], "category": "c", "source": "s"},
    ],
)
def test_a_wrong_rule_is_refused(rule: dict[str, t.Any]) -> None:
    with pytest.raises(ladder.LadderError, match="rule 1"):
        ladder.check_rules([rule])
