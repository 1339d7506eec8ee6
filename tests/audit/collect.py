# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Print what a finished audit of clustermax found, as JSON.

Runs in the virtual environment of clustermax. Its own code grades the values; this program only selects and groups.

Usage: collect.py DIRECTORY_OF_RUNS
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    import types

# Values of criteria that clustermax records without a grade.
UNGRADED = ("access", "computeNodeCpu", "driveConfig", "gpus", "healthChecks", "networking", "resourceLimits")
MORE = ("security", "serverLocation", "software")


def newest(runs: Path) -> Path:
    """Return the values of the newest finished audit. Raise SystemExit if no audit finished."""
    found = sorted(runs.glob("*/audit.values.json"))
    if not found:
        raise SystemExit(f"no finished audit below {runs}")
    return found[-1]


def rules(root: Path) -> types.ModuleType:
    """Return the module that says which check belongs to which criterion."""
    path = root / "scripts/1-audit/audit_findings.py"
    spec = importlib.util.spec_from_file_location("audit_findings", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def criteria(root: Path, checks: t.Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the checks of each criterion for Slurm."""
    catalogue = json.loads((root / "scripts/1-audit/criteria-checks.json").read_text(encoding="utf-8"))["criteria"]
    names = [criterion["id"] for criterion in catalogue if "slurm" in criterion["harnesses"]]
    return {name: sorted(key for key, owner in checks.items() if owner == name) for name in names}


def main() -> int:
    """Print the result."""
    package = importlib.import_module("cmax")
    report = importlib.import_module("cmax.audit_report")
    root = importlib.import_module("cmax.runtime_paths").package_runtime_root()
    values = json.loads(newest(Path(sys.argv[1])).read_text(encoding="utf-8"))
    data = values["audit_data"]
    result = {
        "version": package.__version__,
        "checks": {check.key: check.status for check in report.evaluate(values, root, harness="slurm")},
        "criteria": criteria(root, rules(root).CHECK_CRITERIA),
        "values": {name: data.get(name) for name in (*UNGRADED, *MORE)},
    }
    print(json.dumps(result, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
