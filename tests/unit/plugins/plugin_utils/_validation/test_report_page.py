# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page. Where there is a Chromium, or GPUCLUSTER_BROWSER names one, it is also looked at in light and dark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import typing as t
from html.parser import HTMLParser

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report as results
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_page, report_plots
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import check
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE, cheap
from ansible_collections.hpcai.gpucluster.tests.unit.support import validation_runs

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
    curves = [{"title": "pairs, all_reduce", "name": "gpu1 - gpu2", "rows": ROWS, "bad": bad, "limits": {"fail": 190}}]
    stage = {
        "stage": "nccl",
        "checks": checks,
        "nodes": ["gpu1", "gpu2"],
        "curves": curves,
        "pairs": {"collective": "all_reduce", "limits": {"fail": 170.0}, "values": pairs},
    }
    return results.build([stage], {"run": "20261120T101500Z", "stages": ["nccl"], "cluster": EVIL})


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
    page = Page(report_page.page(report()))

    assert page.open == []
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert all(load.startswith(("#", "data:")) for load in page.loads)


def test_the_verdict_is_on_top_and_what_nodes_wrote_is_only_text() -> None:
    text = report_page.page(report())

    assert text.index("<b>FAIL</b>") < text.index("What to do next") < text.index("<svg") < text.index("<h2>Nodes</h2>")
    assert "<script" not in text
    assert "&lt;script" in text


def test_a_failed_node_stands_above_the_others() -> None:
    table = report_page.page(report())
    table = table[table.index("<h2>Nodes</h2>") :]

    assert table.index(">gpu2<") < table.index(">gpu1<")


def test_what_did_not_run_is_said_in_words_and_is_not_green() -> None:
    text = report_page.page(report())
    rest = text[text.index("What was not proved") : text.index("<h2>Nodes</h2>")]

    assert re.search(r"<th>DCGM</th><td[^>]*>not installed</td><td[^>]*>gpu1</td>", rest)
    assert "Each node by itself" in rest, "a stage that nobody asked for has proved nothing"


def test_the_page_says_what_was_validated() -> None:
    text = report_page.page(validation_runs.run(16))

    assert "16 nodes Standard_ND96isr_H100_v5 with 8 NVIDIA H100 80GB HBM3 each: 128 GPUs" in text
    assert "driver 580.159.04" in text
    assert "it took 15 min 5 s" in text
    assert "16: gpu[1-16]" in text


def test_figures_have_units_and_say_by_how_much_they_pass() -> None:
    text = report_page.page(validation_runs.run(16), plots=False)
    row = re.search(r"<tr><td[^>]*>✓</td><th>in one node, all_reduce</th>.*?</tr>", text)

    assert row
    assert re.findall(r">([^<]+)<", row.group()) == [
        *("✓", "in one node, all_reduce", "478 GB/s", "gpu7, of 16", "479.2 GB/s"),
        *("warns below 465 GB/s; fails below 456 GB/s", "+2.8 %", "480 GB/s"),
    ]
    assert "2.8 % above the limit" in text


def test_the_limits_of_other_operations_are_explained() -> None:
    text = report_page.page(validation_runs.run(16), plots=False)
    rules = text[text.index("Where the limits come from") :]

    assert f"hardware record {validation_runs.SIZE}" in rules
    assert "40% of the limit of all_reduce, for none of alltoall itself is known: it only warns" in rules


def test_many_nodes_make_no_long_page() -> None:
    text = report_page.page(validation_runs.run(500, slow="gpu250", drained="gpu500"))
    table = text[text.index("<h2>Nodes</h2>") :]

    assert len(text) < 120_000
    assert "498 nodes without a complaint: gpu[1-249,251-499]" in table
    assert table.index(">gpu250<") < table.index("498 nodes")
    assert f"since this run began: drained: {validation_runs.REASON}" in text


def test_the_table_shows_no_earlier_tick_for_a_node_that_slurm_has_drained_since() -> None:
    text = report_page.page(validation_runs.run(3, drained="gpu2"), plots=False)
    heads = re.findall(r'<th class="(?:turned|wide)"><span>(.*?)</span>', text)
    line = next(line for line in text.splitlines() if "<tr><th>gpu2</th>" in line)
    cells = re.findall(r"<td[^>]*>([^<]*)", line)

    assert cells[heads.index("state in Slurm")] == "✗"
    assert cells[heads.index("job runs")] == "✓"


def test_a_good_page_gives_no_advice() -> None:
    text = report_page.page(report(bad=False), plots=False)

    assert "<b>PASS</b>" in text
    assert "What to do next" not in text


def test_failures_that_ask_for_the_same_share_an_entry_and_no_step_is_said_twice() -> None:
    names = ("nccl.node.all_reduce", "nccl.node.alltoall", "nccl.pair.all_reduce")
    checks = [check(name, name, "fail", f"{name} is slow", "gpu1") for name in names]
    checks.append(check("isolation.node", "isolation", "fail", "holds every group back", "gpu1"))
    text = report_page.page(results.build([{"stage": "nccl", "checks": checks}], {"stages": ["nccl"]}), plots=False)
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
    text = report_page.page(report())

    assert "prefers-color-scheme: dark" in text
    assert "var(--ink)" in text
    assert text == report_page.page(report()), "the same report gives the same page"


def test_what_is_expected_and_what_decides_are_drawn_apart() -> None:
    levels = {"expected": 190.0, "warn": 180.0, "fail": 170.0}
    picture = report_plots.curves("pairs", [{"name": "gpu1 - gpu2", "rows": ROWS, "bad": True}], levels)
    places = {kind: y for kind, y in re.findall(r'<path class="(\w+)" d="M[\d.]+ ([\d.]+)H', picture) if kind != "grid"}

    assert float(places["expected"]) < float(places["warn"]) < float(places["fail"])
    assert all(words in picture for words in ("expected 190", "warns below 180", "fails below 170", "gpu1 - gpu2"))
    assert 'role="img"' in picture
    assert not re.search(r"<svg[^>]* width=", picture)


def test_many_lines_become_a_band_and_bad_ones_stay_lines() -> None:
    lines = [{"name": f"gpu{number}", "rows": ROWS, "bad": number < 2} for number in range(500)]
    picture = report_plots.curves("nodes", lines)

    assert picture.count("<polyline") == 3
    assert "498 good groups" in picture
    assert len(picture) < 10_000


@pytest.mark.parametrize(("number", "kind"), [(8, "rect"), (500, "circle")])
def test_pairs_are_a_map_where_most_were_measured_and_else_a_ranking(number: int, kind: str) -> None:
    names = [f"gpu{place}" for place in range(number)]
    every = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    values: dict[tuple[str, str], float | None] = dict.fromkeys(every if number < 9 else every[::500], 300.0)
    values[every[0]] = None
    picture = report_plots.pairs("pairs", values, names, {"fail": 200.0})

    assert f"<{kind}" in picture
    assert "failed" in picture
    assert len(picture) < 40_000


def test_lines_that_end_together_share_a_label() -> None:
    lines = [{"name": f"gpu5 - gpu{number}", "rows": ROWS, "bad": True} for number in range(3)]

    assert report_plots._labels(lines, 10.0) == [("gpu5 - gpu0 and 2 more", 190.0)]


@pytest.mark.parametrize("rows", [[], [{"size": 0, "busbw": 0.0}], ROWS[:1]])
def test_a_plot_of_next_to_nothing_is_a_plot(rows: list[dict[str, t.Any]]) -> None:
    lines = [{"name": "gpu1", "rows": rows, "bad": True}]

    assert report_plots.curves("nodes", lines).startswith("<svg")
    assert report_plots.ranking("pairs", {"a - b": None}).startswith("<svg")


@pytest.mark.parametrize(("size", "text"), [(8, "8"), (1048576, "1M"), (4294967296, "4G")])
def test_sizes_read_as_people_write_them(size: int, text: str) -> None:
    assert report_plots.size(size) == text


def test_a_thousand_nodes_are_judged_in_ten_seconds_on_a_page_of_two_megabytes() -> None:
    with cheap(10):
        page = report_page.page(validation_runs.run(1000, slow="gpu7", drained="gpu9"))

    assert len(page.encode()) < 2_000_000
    assert "gpu7" in page


@pytest.mark.skipif(
    not BROWSER, reason="not run: the page of a report in a browser (no Chromium; see GPUCLUSTER_BROWSER)"
)
@pytest.mark.parametrize("number", [1, 16, 500])
@pytest.mark.parametrize(("width", "scheme"), [(1280, 1), (1280, 0), (500, 1)])
def test_a_browser_shows_the_page_and_nothing_is_cut_off(tmp_path: Path, number: int, width: int, scheme: int) -> None:
    page = report_page.page(validation_runs.run(number, slow="gpu3", drained="gpu1"))
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    picture = tmp_path / "report.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={tmp_path}/user"]
    look = [f"--window-size={width},6000", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={picture}"]
    command = [str(BROWSER), *options, *look, f"file://{tmp_path}/report.html"]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)

    from PIL import Image

    shown = Image.open(picture).convert("RGB")
    colours = {colour: count for count, colour in shown.getcolors(1 << 24) or []}
    paper = (26, 26, 25) if scheme == 0 else (252, 252, 251)
    assert max(colours, key=colours.__getitem__) == paper
    assert len(colours) > 100
    edge = shown.crop((width - 8, 0, width, shown.height)).getcolors(1 << 16) or []
    assert [colour for _count, colour in edge] == [paper], "something reaches over the edge of the page"
