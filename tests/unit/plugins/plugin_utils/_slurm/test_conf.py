# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("ClusterName", "lab", "ClusterName=lab\n"),
        ("SlurmctldPort", 6817, "SlurmctldPort=6817\n"),
        ("MpiDefault", None, ""),
        ("MpiDefault", "", ""),
        ("MpiDefault", [], ""),
        ("SlurmctldParameters", {}, ""),
        ("GresTypes", ["gpu", "mps"], "GresTypes=gpu,mps\n"),
        ("DisableRootJobs", True, "DisableRootJobs=YES\n"),
        ("DisableRootJobs", False, "DisableRootJobs=NO\n"),
        ("JobRequeue", False, "JobRequeue=0\n"),  # a number in Slurm's table
        ("SlurmctldHost", ["a", "b(10.0.0.1)"], "SlurmctldHost=a\nSlurmctldHost=b(10.0.0.1)\n"),
        ("Prolog", ["/etc/slurm/a", "/etc/slurm/b"], "Prolog=/etc/slurm/a\nProlog=/etc/slurm/b\n"),
        (
            "SlurmctldParameters",
            {"enable_configless": True, "cloud_dns": False, "node_reg_mem_percent": 90, "x": None},
            "SlurmctldParameters=enable_configless,node_reg_mem_percent=90\n",
        ),
        ("SchedulerParameters", {"a": False}, ""),
        (
            "PMIxEnv",
            {"PMIX_MCA_gds": "hash", "OMPI_MCA_btl": "^openib"},
            "PMIxEnv=PMIX_MCA_gds=hash;OMPI_MCA_btl=^openib\n",
        ),
        ("PMIxEnv", ["A=b", "C=d"], "PMIxEnv=A=b;C=d\n"),
        ("SallocDefaultCommand", "srun --pty bash", 'SallocDefaultCommand="srun --pty bash"\n'),
        ("SallocDefaultCommand", '"srun --pty"', 'SallocDefaultCommand="srun --pty"\n'),
        ("JobCompPass", "a#b", "JobCompPass=a\\#b\n"),
        ("SuspendExcNodes", ["gpu2", "gpu1", "gpu[5-6]:1"], "SuspendExcNodes=gpu[1-2],gpu[5-6]:1\n"),
    ],
)
def test_a_value_becomes_what_slurm_reads(key: str, value: t.Any, text: str) -> None:
    assert conf.render({key: value}) == text


def test_lines_keep_the_order_of_their_keys_and_of_themselves() -> None:
    lines: list[dict[str, t.Any]] = [
        {"NodeName": ["gpu2", "gpu1"], "CPUs": 96, "Gres": "gpu:h100:8", "Reason": "new machine", "Weight": None},
        {"NodeSet": "h100", "Nodes": ["gpu1", "gpu2"]},
        {
            "PartitionName": "main",
            "Nodes": ["h100"],
            "Default": True,
            "TRESBillingWeights": {"CPU": 1.0, "GRES/gpu": 8},
        },
    ]

    assert conf.render({"ClusterName": "lab"}, lines) == (
        "ClusterName=lab\n"
        'NodeName=gpu[1-2] CPUs=96 Gres=gpu:h100:8 Reason="new machine"\n'
        "NodeSet=h100 Nodes=gpu[1-2]\n"
        "PartitionName=main Nodes=h100 Default=YES TRESBillingWeights=CPU=1.0,GRES/gpu=8\n"
    )


def test_a_line_without_its_name_is_refused() -> None:
    with pytest.raises(conf.ConfError, match="has no value for NodeName"):
        conf.render({}, [{"NodeName": [], "CPUs": 1}])


@pytest.mark.parametrize(("key", "value"), [("A B", 1), ("A", "x\ny"), ("A", 'x"y'), ("A=B", "x")])
def test_what_slurm_could_not_read_is_refused(key: str, value: str) -> None:
    with pytest.raises(conf.ConfError):
        conf.render({key: value})


@pytest.mark.parametrize("key", ["StoragePass", "JobCompPass"])
@pytest.mark.parametrize("value", ['hun"ter2', "hunter2\n", '"hunter\n2"'])
def test_a_secret_is_in_no_message(key: str, value: str) -> None:
    with pytest.raises(conf.ConfError, match=f"^{key}: ") as caught:
        conf._pair(key, value)

    assert "hun" not in str(caught.value)


def test_a_secret_of_a_line_that_cannot_be_read_is_in_no_message() -> None:
    with pytest.raises(conf.ConfError) as caught:
        conf.parse("JobCompPass=hunter 2")

    assert "hunter" not in str(caught.value)


def test_text_is_read_without_comments_and_with_continuations() -> None:
    text = (
        "# slurm.conf\n\nClusterName=lab # here\nNodeName=gpu1 \\\n  CPUs=2\n"
        'SallocDefaultCommand="srun -n1"\nJobCompPass=a\\#b\nInclude /etc/slurm/extra.conf\n'
    )

    assert conf.parse(text) == [
        ("ClusterName", "lab", {}),
        ("NodeName", "gpu1", {"CPUs": "2"}),
        ("SallocDefaultCommand", "srun -n1", {}),
        ("JobCompPass", "a#b", {}),
        ("Include", "/etc/slurm/extra.conf", {}),
    ]


def test_what_is_printed_is_read_back() -> None:
    config = {"ClusterName": "lab", "SallocDefaultCommand": "a b", "JobCompPass": "x#y"}

    assert {line.key: line.value for line in conf.parse(conf.render(config))} == config


def test_a_line_that_slurm_cannot_read_is_named() -> None:
    with pytest.raises(conf.ConfError, match="'borked' in the line 'ClusterName=lab borked'"):
        conf.parse("ClusterName=lab borked\n")


def test_a_value_does_not_swallow_the_next_line() -> None:
    with pytest.raises(conf.ConfError, match="Prolog: a backslash at the end of the value would"):
        conf.render({"Prolog": "/etc/slurm/prolog\\", "Epilog": "/etc/slurm/epilog"})
