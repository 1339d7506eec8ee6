# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node line that slurmctld would not accept from the machine of the record is refused."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import check_nodes, node_lines, nodes
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs


def sliced(mig: dict[str, t.Any], options: t.Sequence[str] = ("--with-nvml=/usr",), **line: t.Any) -> str:
    """Return what the check of the input says of two machines with eight GPUs in these slices."""
    record = records.find("DGX_A100")
    host = {
        "gpucluster_vm_size_record": {**record, "gpus": {**record["gpus"], "mig": mig}},
        "slurm_node_config": line,
    }
    group = nodes.group(["dgx1", "dgx2"], {"dgx1": host, "dgx2": host})
    return "\n".join(slurm_checks.problems(inputs(slurm_nodes=group, slurm_configure_options=list(options))))


def problems(size: str = "DGX_H100", slurm_config: dict[str, t.Any] | None = None, **line: t.Any) -> str:
    """Return what the check of the input says of two such machines with these parameters of the node line."""
    host = {"gpucluster_vm_size": size, "slurm_node_config": line}
    group = nodes.group(["dgx1", "dgx2"], {"dgx1": host, "dgx2": host})
    return "\n".join(slurm_checks.problems(inputs(slurm_nodes=group, slurm_config=slurm_config or {})))


@pytest.mark.parametrize(
    "gres",
    [
        "gpu:hopper:8",
        "gpu:nvidia_h100_80gb_hbm3:8",
        "gpu:H100:8",
        "gpu:h100:4,gpu:h100_80gb:4",
        "gpu:3090:8",
        "gpu:H100:no_consume:8",
        "gpu:hopper",
    ],
)
def test_another_type_than_that_of_gres_conf_is_refused(gres: str) -> None:
    found = problems(Gres=gres)

    assert found.startswith("slurm_node_config: NodeName dgx[1-2]: Gres 'gpu:")
    assert "gres.conf has h100: Slurm compares letter by letter, and would drain the node. Allowed: gpu:8" in found
    assert found.endswith(" for dgx1, dgx2")


def test_types_of_some_gpus_only_are_refused() -> None:
    assert "Gres has gpu with and without a type, so slurmd would not start" in problems(Gres="gpu:h100:4,gpu:4")


@pytest.mark.parametrize("gres", ["gpu:1g.10gb:56", "gpu:h100_1g.10gb:56", "gpu:1g.10gb+me:8"])
def test_slices_of_gpus_are_named_as_such(gres: str) -> None:
    found = problems(Gres=gres)

    assert "slices (MIG) need gpus.mig in the hardware record" in found
    assert "is not of the form" not in found
    assert "0 GPUs" not in found


@pytest.mark.parametrize(
    ("gres", "types"),
    [
        ("gpu:8", []),
        ("gpu:h100:8", []),
        ("gpu:h100:8(S:0-1)", []),
        ("gpu:h100:8(S:0,1)", []),
        ("gpu:h100:no_consume:8", []),
        (["gpu:h100:8", "shard:64"], ["gpu", "shard"]),
        ("gpu:8,bandwidth:lustre:4G", ["gpu", "bandwidth"]),
        ("gpu:8,x:1T,y:1P,z:4p", ["gpu", "x", "y", "z"]),
    ],
)
def test_gres_in_each_form_of_slurm_are_accepted(gres: t.Any, types: list[str]) -> None:
    assert problems(Gres=gres, slurm_config={"GresTypes": types} if types else None) == ""


@pytest.mark.parametrize("gres", ["gpu:8:h100", "gpu:", ":8", "gpu:h100:8:9", "gpu:h100:x", "gpu(S:0", "gpu:h1(0):8"])
def test_gres_in_other_forms_are_refused(gres: str) -> None:
    assert f"Gres {gres!r} is not of the form name[:type][:count]" in problems(Gres=gres)


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:8", 8),
        ("gpu:3090:8", 8),
        ("gpu:1g.10gb+me:8", 8),
        ("gpu:h100:4,gpu:a100:2", 6),
        ("gpu", 1),
        ("gpu:a", 1),
        ("gpu:1K", 1024),
        ("gpu:a:1t", 1024**4),
    ],
)
def test_gpus_are_counted_in_each_form(gres: str, count: int) -> None:
    items = list(check_nodes.gres(gres))

    assert sum(item.number for item in items if isinstance(item, check_nodes.Gres)) == count


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"RealMemory": 4000000}, "RealMemory is 4000000, the hardware record has 2063425 MiB. Slurm would drain"),
        ({"RealMemory": "4000k"}, "RealMemory is 4096000, "),
        ({"RealMemory": "INFINITE"}, "Allowed: up to 2063425"),
        ({"CPUs": 999}, "CPUs is 999, the hardware record has 224 CPUs"),
        ({"Sockets": 4, "CoresPerSocket": 64}, "(4 sockets with 64 cores) is 256, the hardware record has 112 cores"),
        ({"Sockets": 3}, "CoresPerSocket (3 sockets with 56 cores) is 168"),
        ({"CoresPerSocket": 57}, "CoresPerSocket (2 sockets with 57 cores) is 114"),
        ({"SocketsPerBoard": 2, "Boards": 2}, "CoresPerSocket (4 sockets with 56 cores) is 224"),
        ({"ThreadsPerCore": 4}, "ThreadsPerCore is 4, the hardware record has 2 threads"),
        ({"MemSpecLimit": 3000000}, "MemSpecLimit is 3000000, but there are 1960253 MiB of RealMemory. Slurm would"),
        ({"RealMemory": 1000, "MemSpecLimit": 1000}, "Allowed: less than 1000"),
        ({"CoreSpecCount": 112}, "CoreSpecCount is 112, but there are 112 cores"),
    ],
)
def test_more_than_the_record_is_refused(line: dict[str, t.Any], message: str) -> None:
    found = problems(**line)

    assert message in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "config"),
    [
        ({"RealMemory": 2063425}, {}),
        ({"RealMemory": 1000, "CPUs": 8, "MemSpecLimit": 999, "CoreSpecCount": 111}, {}),
        ({"Sockets": 1, "CoresPerSocket": 112}, {}),
        # Without the topology, Slurm finds the sockets itself.
        (
            {"CPUs": 112, "Sockets": None, "CoresPerSocket": None, "ThreadsPerCore": None, "CoreSpecCount": 4},
            {},
        ),
        ({"Sockets": 4, "CoresPerSocket": 28}, {}),
        ({"ThreadsPerCore": 1}, {}),
        ({"SocketsPerBoard": 1}, {}),
        ({"CPUs": 999, "RealMemory": 4000000}, {"SlurmdParameters": {"config_overrides": True}}),
        ({"RealMemory": 2200000}, {"SlurmctldParameters": {"node_reg_mem_percent": 90}}),
    ],
)
def test_less_than_the_record_is_a_wish(line: dict[str, t.Any], config: dict[str, t.Any]) -> None:
    assert problems(slurm_config=config, **line) == ""


def test_a_job_of_a_whole_node_fits_what_the_line_leaves() -> None:
    line = {"RealMemory": 1000000, "MemSpecLimit": 500000, "CPUs": 112}
    group = nodes.group(["dgx1"], {"dgx1": {"gpucluster_vm_size": "DGX_H100", "slurm_node_config": line}})

    assert slurm_checks.problems(inputs(slurm_nodes=group, slurm_share_nodes=True)) == []


@pytest.mark.parametrize(
    ("mig", "line", "words"),
    [
        ({"1g.10gb": 56}, {}, ""),
        ({"1g.10gb": 56}, {"Gres": "gpu:56"}, ""),
        ({"1g.10gb": 56}, {"Gres": "gpu:1g.10gb:56"}, ""),
        ({"1g.10gb+me": 8}, {"Gres": "gpu:1g.10gb+me:8"}, ""),
        ({"3g.40gb": 8, "1g.10gb": 32}, {"Gres": "gpu:1g.10gb:32,gpu:3g.40gb:8"}, ""),
        (
            {"1g.10gb": 56},
            {"Gres": "gpu:1g.10gb:55"},
            "Gres says 55 of 1g.10gb, gpus.mig of the hardware record says 56",
        ),
        ({"1g.10gb": 56}, {"Gres": "gpu:8"}, "Gres says 8 GPUs"),
        ({"1g.10gb": 56}, {"Gres": "gpu:a100:8"}, "has the type a100, gres.conf has 1g.10gb"),
        ({"3g.40gb": 8, "1g.10gb": 32}, {"Gres": "gpu:3g.40gb:40"}, "Gres says 40 of 3g.40gb"),
    ],
)
def test_slices_of_the_record_are_what_the_line_may_have(
    mig: dict[str, t.Any], line: dict[str, t.Any], words: str
) -> None:
    found = sliced(mig, **line)

    assert words in found
    assert bool(found) == bool(words), found


def test_slices_need_a_slurm_that_finds_them() -> None:
    found = sliced({"1g.10gb": 56}, options=["--with-ucx=/usr"])

    assert found.startswith('slurm_configure_options is ["--with-ucx=/usr"], but dgx[1-2] have slices of GPUs')


@pytest.mark.parametrize(
    ("mig", "words"),
    [
        ({"1g": 56}, "gpus.mig has '1g', it must be a profile"),
        ({"a100": 8}, "gpus.mig has 'a100', it must be a profile"),
        ({"1g.10gb": 0}, "gpus.mig.1g.10gb is 0"),
        ({"1g.10gb": "7"}, "gpus.mig.1g.10gb is '7'"),
        ({"1g.10gb": True}, "gpus.mig.1g.10gb is True"),
        ({"1g.10gb": 57}, "gpus.mig needs 57 parts of GPUs, and 8 GPUs have 56"),
        ({"3g.40gb": 16, "1g.10gb": 16}, "gpus.mig needs 64 parts"),
        ({"1g.10gb": 40, "1g.10gb+me": 8}, "Slurm cannot tell 1g.10gb from 1g.10gb+me"),
        ({"1g.5gb": 8, "1c.1g.5gb": 8}, "Slurm cannot tell 1g.5gb from 1c.1g.5gb"),
    ],
)
def test_slices_that_no_gpu_has_are_refused(mig: dict[str, t.Any], words: str) -> None:
    with pytest.raises(nodes.NodeError, match=re.escape(words)):
        sliced(mig)


def test_a_node_of_slices_has_them_in_its_line_and_slurmd_finds_them() -> None:
    record = records.find("DGX_A100")
    divided = {**record, "gpus": {**record["gpus"], "mig": {"3g.40gb": 8, "1g.10gb": 32}}}
    group = [{"hosts": "dgx[1-2]", "record": divided, "config": {}}, {"hosts": "dgx3", "record": record, "config": {}}]

    assert node_lines.node_lines(group)[0]["Gres"] == "gpu:3g.40gb:8,gpu:1g.10gb:32"
    lines = node_lines.gres_conf(group).splitlines()
    assert lines[:2] == ["AutoDetect=off", "NodeName=dgx[1-2] AutoDetect=nvml"]
    assert all(line.startswith("NodeName=dgx3 Name=gpu Type=a100 File=") for line in lines[2:])
