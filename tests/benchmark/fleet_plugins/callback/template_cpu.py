# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Callback of fleet.py: each evaluation of a template, and its processor time without the templates inside it."""

from __future__ import annotations

import json
import os
import time
import typing as t

from ansible._internal._templating import _engine
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: template_cpu
type: aggregate
short_description: Measure the processor time of templates on the control node
description: For tests/benchmark/fleet.py. It uses an internal class of ansible-core, and slows a run down.
author: HPC AI Infrastructure Team (@hpcai)
"""
WIDTH = 100


class CallbackModule(CallbackBase):
    """Write a line for each evaluation to a file, from all processes."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "template_cpu"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: t.Any, **options: t.Any) -> None:
        """Wrap the functions that compile a template or an expression; processes inherit that."""
        super().__init__(*args, **options)
        self._file = os.open(os.environ["FLEET_TEMPLATES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._task = "(start)"
        self._inside = [0.0]  # for each template that is being evaluated, the time of those inside it
        for name in ("_compile_template", "_compile_expression"):
            setattr(_engine.TemplateEngine, name, self._measured(getattr(_engine.TemplateEngine, name)))

    def _measured(self, compiler: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def compiled(engine: t.Any, text: str, options: t.Any) -> t.Any:
            begin = time.process_time()
            function = compiler(engine, text, options)
            spent = time.process_time() - begin

            def evaluate(variables: t.Any) -> t.Any:
                begin = time.process_time()
                self._inside.append(0.0)
                try:
                    return function(variables)
                finally:
                    whole = spent + time.process_time() - begin
                    self._write(text, whole - self._inside.pop())
                    self._inside[-1] += whole

            return evaluate

        return compiled

    def _write(self, text: str, seconds: float) -> None:
        row = (self._task, " ".join(text.split())[:WIDTH], round(1000 * seconds, 3))
        os.write(self._file, (json.dumps(row) + "\n").encode())

    def v2_playbook_on_task_start(self, task: t.Any, is_conditional: bool) -> None:
        """Begin a task."""
        self._task = task.get_name()
