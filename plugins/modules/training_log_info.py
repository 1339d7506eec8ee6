#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that reads the log of a training run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: training_log_info
short_description: Read the log of a training run
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the complete lines that the trainer wrote since an earlier call, so that a run can be followed.
  - A log that does not exist yet is empty.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  path:
    description: Path of C(log.jsonl).
    type: path
    required: true
  offset:
    description: RV(offset) of the earlier call. V(0) reads from the beginning.
    type: int
    default: 0
  user:
    description:
      - Reads with the rights of this user, who can put anything in the place of the file. Only for root.
      - The default is the user who runs the module.
    type: str
seealso:
  - module: hpcai.gpucluster.validation_stage
"""

EXAMPLES = r"""
- name: Read the log of a run
  hpcai.gpucluster.training_log_info:
    path: /shared/training/runs/alice/gpt3_126m-17/log.jsonl
    user: alice
  register: __log
"""

RETURN = r"""
text:
  description: The lines, each a JSON object, at most four MiB of them.
  returned: always
  type: str
offset:
  description: Byte after the last complete line.
  returned: always
  type: int
  sample: 48213
"""

import contextlib
import os
import pwd
import stat
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

_LONGEST = 4 << 20


def read(path: Path, offset: int) -> tuple[str, int]:
    """Return the complete lines after an offset, and the offset after them."""
    try:
        # Without the flag, a FIFO would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError("it is no regular file")
            stream.seek(offset)
            data = stream.read(_LONGEST)
    except FileNotFoundError:
        return "", offset
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode("utf-8", errors="replace"), offset + len(whole)


@contextlib.contextmanager
def rights_of(name: str | None) -> t.Iterator[None]:
    """Open files with the rights of a user only."""
    if not name:
        yield
        return
    entry, groups, group = pwd.getpwnam(name), os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(name, entry.pw_gid))
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        os.setegid(group)
        os.setgroups(groups)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "offset": {"type": "int", "default": 0},
            "user": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        with rights_of(module.params["user"]):
            text, offset = read(Path(module.params["path"]), module.params["offset"])
    except KeyError:
        module.fail_json(msg=f"user: found {module.params['user']}; allowed: a user whom this machine knows")
    except OSError as exc:
        module.fail_json(msg=f"{module.params['path']} cannot be read: {exc}")
    module.exit_json(changed=False, text=text, offset=offset)


if __name__ == "__main__":
    main()
