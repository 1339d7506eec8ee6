# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Keep what Python compiles from zip archives until the machine stops.

Ansible sends each module as an archive of source files. Python compiles them again in each task, for about half of the
time that a module takes. Python imports this file when it starts, on the machines of Molecule only, so it is small.
"""

import _imp
import marshal
import os
import zipimport

KEPT = "/run/compiled-zip-files"
_compile = zipimport._compile_source


def kept(path: str, source: bytes) -> object:
    """Return the code of a source file, from an earlier process if there is one."""
    name = f"{KEPT}/{_imp.source_hash(0, source).hex()}-{len(source)}"
    try:
        with open(name, "rb") as file:
            return marshal.loads(file.read())
    except (OSError, EOFError, ValueError, TypeError):
        return _keep(name, _compile(path, source))


def _keep(name: str, code: object) -> object:
    part = f"{name}.{os.getpid()}"
    try:
        os.makedirs(KEPT, exist_ok=True)
        with open(part, "wb") as file:
            file.write(marshal.dumps(code))
        os.rename(part, name)
    except OSError:
        pass  # Only root can write there.
    return code


zipimport._compile_source = kept
