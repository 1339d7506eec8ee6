# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module validation_report."""

from __future__ import annotations

import json
import typing as t
from datetime import datetime, timezone
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    report,
    report_brief,
    report_junit,
    report_page,
)


class ActionModule(ActionBase):
    """Compute the verdict, and write the report on the control node; no host is contacted."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the verdict and the path of the page."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        names = {"type": "list", "elements": "str"}
        spec = {
            "results": {"type": "list", "elements": "dict", "required": True},
            "stages": {**names, "required": True},
            "run": {"type": "str", "required": True},
            "cluster": {"type": "str", "default": ""},
            "directory": {"type": "path", "required": True},
            "baseline": {"type": "path"},
            "regression_percent": {"type": "int", "default": 50},
            "reasons": {"type": "dict", "default": {}},
            "plots": {"type": "bool", "default": True},
        }
        arguments = plain(self.validate_argument_spec(argument_spec=spec)[1])
        now = datetime.now(timezone.utc)
        found = _report(arguments, now)
        directory = Path(arguments["directory"]) / arguments["run"]
        if not self._task.check_mode:
            _write(directory, found, arguments["plots"])
        result.update({key: found[key] for key in ("verdict", "summary", "worst")})
        result.update(changed=True, page=str(directory / "report.html"))
        result["brief"] = report_brief.brief(found, int(now.timestamp()))
        return result


def _report(arguments: t.Mapping[str, t.Any], now: datetime) -> report.Report:
    """Return the report of the stages."""
    about = {
        "run": arguments["run"],
        "finished": now.strftime("%Y-%m-%d %H:%M UTC"),
        "ended": int(now.timestamp()),
        "cluster": arguments["cluster"],
        "stages": arguments["stages"],
        "reasons": arguments["reasons"],
        "regression_percent": arguments["regression_percent"],
    }
    try:
        return report.build(arguments["results"], about, _baseline(arguments["baseline"]))
    except report.ReportError as exc:
        raise AnsibleActionFail(str(exc)) from exc


def _baseline(path: str | None) -> t.Any:
    """Return the earlier report to compare with, if there is one."""
    if not path:
        return None
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise AnsibleActionFail(f"baseline: {path} is no report.json: {exc}") from exc


def _write(directory: Path, found: report.Report, plots: bool) -> None:
    """Write the report in its three formats."""
    texts = {
        "report.json": json.dumps(found, indent=4, sort_keys=True),
        "junit.xml": report_junit.junit(found),
        "report.html": report_page.page(found, plots=plots),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        for name, text in texts.items():
            (directory / name).write_text(text, encoding="utf-8")
            (directory / name).chmod(0o644)
    except OSError as exc:
        raise AnsibleActionFail(f"directory: the report cannot be written: {exc}") from exc
