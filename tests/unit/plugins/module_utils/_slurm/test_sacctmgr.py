# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.sacctmgr import Sacctmgr, SacctmgrError

if t.TYPE_CHECKING:
    from collections.abc import Sequence

FIXTURES = Path(__file__).parents[3] / "fixtures/sacctmgr/24.11.5"


def recorded(args: Sequence[str]) -> tuple[int, str, str]:
    """Answer as sacctmgr 24.11.5 of Debian 13 did."""
    assert list(args[1:4]) == ["-n", "-P", "show"]
    return 0, (FIXTURES / f"{args[4]}.txt").read_text(encoding="utf-8"), ""


def test_a_real_accounting_is_read() -> None:
    found = Sacctmgr(recorded).read("lab")

    assert sorted(found.qos) == ["high", "low", "normal"]
    assert found.qos["high"]["MaxTRESPerUser"] == {"gres/gpu": 16, "mem": 102400}
    assert found.qos["high"]["GraceTime"] == 90
    assert found.qos["high"]["Preempt"] == {"low"}
    assert found.qos["normal"]["Description"] == "Normal QOS default"
    assert sorted(found.accounts) == ["research", "root", "team"]
    assert found.accounts["team"]["Parent"] == "research"
    assert found.accounts["research"]["Description"] == "gpu | research"
    assert found.accounts["research"]["MaxWallDurationPerJob"] == 120
    assert found.elsewhere == {"foo": {"Organization": "foo", "Description": "foo"}}
    assert found.associations["bob", "team", "main"]["Fairshare"] == "7"
    assert found.associations["bob", "research", ""]["MaxSubmitJobs"] == 9
    assert found.users["alice"] == {"DefaultAccount": "research", "AdminLevel": "Operator"}
    assert {"cpu", "mem", "gres/gpu", "fs/disk"} <= found.tres


def test_an_unknown_cluster_says_what_to_do() -> None:
    with pytest.raises(SacctmgrError, match=r"no cluster 'other' \(known: lab\); a slurmctld with that ClusterName"):
        Sacctmgr(recorded).read("other")


def test_a_database_that_does_not_answer_is_named() -> None:
    refused = (
        "sacctmgr: error: _open_persist_conn: failed to open persistent connection to host:control:6819: "
        "Connection refused\nsacctmgr: error: Sending PersistInit msg: Connection refused\n"
    )

    with pytest.raises(SacctmgrError, match=r"show tres exited 1: .*host:control:6819: Connection refused"):
        Sacctmgr(lambda args: (1, "", refused)).read("lab")


def test_a_line_of_another_form_is_refused() -> None:
    with pytest.raises(SacctmgrError, match="unexpected line from sacctmgr show tres: 'cpu'"):
        Sacctmgr(lambda args: (0, "cpu\n", "")).read("lab")


@pytest.mark.parametrize(
    ("entity", "text", "damaged", "words"),
    [
        ("user", "bob|team|None\n", "", "show user does not list 'bob', which has an association"),
        ("account", "team|research|a | b team\n", "", "show account does not list 'team'"),
        ("assoc", "team|||research|1|", "team|||research|-1|", "Fairshare of team is '-1'"),
        ("assoc", "team|bob|main||7|", "team|bob|main||7,0|", "Fairshare of bob is '7,0'"),
        ("qos", "high|100|", "high|0x|", "Priority of high is '0x'"),
        ("user", "alice|research|Operator", "alice|research|Opera", "AdminLevel of alice is 'Opera'"),
        ("user", "alice|", "\ufeffalice|", "unexpected line from sacctmgr show user"),
        ("tres", "gres|gpu\n", "gr\x00es|gpu\n", "unexpected line from sacctmgr show tres"),
        ("tres", "gres|gpu\n", "|gpu\n", "unexpected line from sacctmgr show tres"),
        ("assoc", "research|bob|", "research||", "show assoc lists 'research||' twice"),
        ("qos", "|low\n", "|lo", "the output of sacctmgr show qos is cut"),
    ],
)
def test_a_damaged_list_is_refused(entity: str, text: str, damaged: str, words: str) -> None:
    def run(args: Sequence[str]) -> tuple[int, str, str]:
        code, out, err = recorded(args)
        assert args[4] != entity or text in out
        return code, out.replace(text, damaged) if args[4] == entity else out, err

    with pytest.raises(SacctmgrError, match=re.escape(words)):
        Sacctmgr(run).read("lab")


def test_a_refused_change_says_which_and_why() -> None:
    answer = (1, " Unknown option: MaxWall=soon\n Use keyword 'where' to modify condition\n", "")

    with pytest.raises(SacctmgrError, match="sacctmgr modify account exited 1: Unknown option: MaxWall=soon Use"):
        Sacctmgr(lambda args: answer).change(["modify", "account"])
