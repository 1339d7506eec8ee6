# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alarms of elastic sets, as the program for elastic nodes writes them."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import elastic
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring.text import render

if t.TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


class Files:
    """Files of a controller, by path."""

    def __init__(self, **files: str) -> None:
        self.files = files

    def read(self, path: str) -> str:
        return self.files.get(path.rpartition("/")[2].partition(".")[0], "")


def page(files: Files) -> str:
    return render(elastic.samples(t.cast("Host", files)))


def test_each_alarm_is_a_figure_with_its_reason(tmp_path: Path) -> None:
    config = json.dumps({"directory": str(tmp_path), "nodes": {}})

    assert page(Files(elastic=config)) == ""
    assert page(Files(elastic=config, state='{"alarms": {"held": "2 machines run on"}}')).endswith(
        'gpucluster_elastic_alarm{set="held",reason="2 machines run on"} 1\n'
    )


def test_without_elastic_sets_there_is_none() -> None:
    assert page(Files()) == ""


def test_a_damaged_file_is_a_failure() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        page(Files(elastic='{"directory": "/x"}', state="{"))
