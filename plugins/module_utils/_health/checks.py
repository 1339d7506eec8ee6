# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run checks by name."""

from __future__ import annotations

import importlib
import time
import typing as t

from . import memory as memory_
from .case import Case, Shared
from .table import CHECKS
from .verdict import (
    HEALTHY,
    NOT_APPLICABLE,
    NOT_RUN,
    UNHEALTHY,
    ExplainedError,
    Finding,
    NotApplicableError,
    NotRunError,
    UnhealthyError,
    UnknownError,
    Verdict,
    tidy,
    unknown,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .machine import Machine


def run(
    names: Sequence[str], config: dict[str, t.Any], machine: Machine, remembered: dict[str, dict[str, t.Any]]
) -> Iterator[tuple[Verdict, dict[str, t.Any]]]:
    """Run checks and yield the verdict of each with the state to store."""
    shared = Shared()
    tools = config.get("tools") or {}
    for name in names:
        params = (config.get("checks") or {}).get(name)
        before = remembered.get(name) or {}
        start = time.perf_counter()
        if params is None:
            finding = unknown(f"the configuration has no parameters of {name}")
            params = {}
        elif not params.get("enabled", True):
            finding = Finding(NOT_APPLICABLE, "switched off")
        else:
            finding = sample(name, Case(machine, params, before.get("keep"), shared, tools))
        status, reason, after = memory_.settle(finding, before, params, machine.now())
        found = None if status == HEALTHY else finding.found
        yield Verdict(name, status, reason, finding.expected, found, round(time.perf_counter() - start, 4)), after


def sample(name: str, case: Case) -> Finding:
    """Take one sample; an error inside a check becomes a finding, never a traceback."""
    check = CHECKS[name]
    try:
        finding: Finding = getattr(importlib.import_module(f"{__package__}.{check.module}"), check.function)(case)
    except UnhealthyError as exc:
        return Finding(UNHEALTHY, tidy(str(exc)))
    except NotApplicableError as exc:
        return Finding(NOT_APPLICABLE, tidy(str(exc)))
    except NotRunError as exc:
        return Finding(NOT_RUN, tidy(str(exc)))
    except UnknownError as exc:
        return unknown(str(exc))._replace(explained=isinstance(exc, ExplainedError))
    except Exception as exc:
        return unknown(f"the check itself failed: {type(exc).__name__}: {exc}")
    return finding
