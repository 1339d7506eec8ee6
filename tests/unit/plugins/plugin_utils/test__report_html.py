# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page. Where there is a Chromium, or GPUCLUSTER_BROWSER names one, it is also looked at in light and dark."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import subprocess
import typing as t
from html.parser import HTMLParser

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _report, _report_html, _report_plots
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._checks import check

if t.TYPE_CHECKING:
    from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = os.environ.get("GPUCLUSTER_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
ROWS = [{"size": 2**power, "busbw": 190.0 * power / 32} for power in range(20, 33)]
EVIL = "<script src=https://evil.example/x.js></script><img src=http://evil.example/y.png>"


def report(*, bad: bool = True) -> dict[str, t.Any]:
    status = "fail" if bad else "pass"
    checks = [
        check("scheduler.job", "job runs", "pass", "", "gpu1"),
        check("scheduler.job", "job runs", status, EVIL if bad else "", "gpu2"),
        check("node.dcgm", "DCGM", "not_run", "not installed", "gpu1"),
        check(
            "nccl.pair.all_reduce",
            "pairs",
            status,
            "slow",
            group="gpu1 - gpu2",
            measured=95.0,
            expected=190,
            unit="GB/s",
        ),
    ]
    pairs = [{"nodes": ["gpu1", "gpu2"], "busbw": 95.0}, {"nodes": ["gpu1", "gpu3"], "busbw": None}]
    curves = [{"title": "pairs, all_reduce", "name": "gpu1 - gpu2", "rows": ROWS, "bad": bad, "expected": 190}]
    stage = {
        "stage": "nccl",
        "checks": checks,
        "nodes": ["gpu1", "gpu2"],
        "curves": curves,
        "pairs": {"collective": "all_reduce", "minimum": 170.0, "values": pairs},
    }
    return _report.build([stage], {"run": "20261120T101500Z", "stages": ["nccl"], "cluster": EVIL})


class Page(HTMLParser):
    """Keeps what a page would load or run, and whether its elements are closed."""

    VOID: t.ClassVar = {"meta", "br", "img", "link", "hr", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = Page(_report_html.page(report()))

    assert page.open == []
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert all(load.startswith(("#", "data:")) for load in page.loads)


def test_the_verdict_is_on_top_and_what_nodes_wrote_is_only_text() -> None:
    text = _report_html.page(report())

    assert text.index("<b>FAIL</b>") < text.index("What to do next") < text.index("<h2>Nodes</h2>") < text.index("<svg")
    assert "<script" not in text
    assert "&lt;script" in text


def test_a_failed_node_stands_above_the_others_and_not_run_is_not_green() -> None:
    table = _report_html.page(report())
    table = table[table.index("<h2>Nodes</h2>") :]

    assert table.index(">gpu2<") < table.index(">gpu1<")
    assert 'class="cell not_run" title="not run: not installed"' in table


def test_a_good_page_gives_no_advice() -> None:
    text = _report_html.page(report(bad=False), plots=False)

    assert "<b>PASS</b>" in text
    assert "What to do next" not in text


def test_failures_that_ask_for_the_same_share_an_entry_and_no_step_is_said_twice() -> None:
    names = ("nccl.node.all_reduce", "nccl.node.alltoall", "nccl.pair.all_reduce")
    checks = [check(name, name, "fail", f"{name} is slow", "gpu1") for name in names]
    checks.append(check("isolation.node", "isolation", "fail", "holds every group back", "gpu1"))
    text = _report_html.page(_report.build([{"stage": "nccl", "checks": checks}], {"stages": ["nccl"]}), plots=False)
    advice = text[text.index("What to do next") : text.index("<h2>Nodes</h2>")]

    assert re.findall(r"<article.*?<b class=\"fail\">✗ (.*?)</b>", advice) == [
        "isolation",
        "nccl.node.all_reduce and 1 more",
        "nccl.pair.all_reduce",
    ]
    steps = re.findall(r"<li>(.*?)</li>", advice)
    assert len(steps) == len(set(steps))
    assert advice.count("What is said above") == 2


def test_light_and_dark_share_the_pictures() -> None:
    text = _report_html.page(report())

    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "#010203" not in text
    assert text == _report_html.page(report()), "the same report gives the same page"


def test_the_expected_line_and_the_slow_pair_are_drawn() -> None:
    picture = _report_plots.curves("pairs", [{"name": "gpu1 - gpu2", "rows": ROWS, "bad": True}], 190.0)

    assert "wanted 190" in picture
    assert "gpu1 - gpu2" in picture
    assert re.search(r'<svg[^>]* role="img"', picture)
    assert not re.search(r"<svg[^>]* width=", picture)


def test_lines_that_end_together_share_a_label() -> None:
    lines = [{"name": f"gpu5 - gpu{number}", "rows": ROWS, "bad": True} for number in range(3)]

    assert _report_plots._labels(lines) == [("gpu5 - gpu0 and 2 more", 2**32, 190.0)]


@pytest.mark.parametrize(("size", "text"), [(8, "8"), (1048576, "1M"), (4294967296, "4G")])
def test_sizes_read_as_people_write_them(size: int, text: str) -> None:
    assert _report_plots.size(size) == text


def test_without_matplotlib_a_page_without_plots_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: t.Any) -> t.Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)

    assert "<b>FAIL</b>" in _report_html.page(report(), plots=False)
    with pytest.raises(_report_plots.PlotError, match="pip install matplotlib"):
        _report_html.page(report())


@pytest.mark.skipif(
    not BROWSER, reason="nobody looked at the page: no Chromium here (apt-get install chromium, or GPUCLUSTER_BROWSER)"
)
@pytest.mark.parametrize("scheme", [0, 1])
def test_a_browser_shows_the_page(tmp_path: Path, scheme: int) -> None:
    (tmp_path / "report.html").write_text(_report_html.page(report()), encoding="utf-8")
    picture = tmp_path / "report.png"
    subprocess.run(
        [
            *[
                str(BROWSER),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--window-size=1200,1600",
            ],
            *[f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}"],
            f"file://{tmp_path}/report.html",
        ],
        check=True,
        timeout=120,
        capture_output=True,
    )

    from PIL import Image

    shown = Image.open(picture).convert("RGB")
    colours = {colour: count for count, colour in shown.getcolors(1 << 24) or []}
    assert max(colours, key=colours.__getitem__) == ((26, 26, 25) if scheme == 0 else (252, 252, 251))
    assert len(colours) > 100
