# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manage a set of small files in one task."""

from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Manage a set of small files in one task
description:
  - Writes or removes many small files at once, for programs of several files and for drop-in directories. One task of
    M(ansible.builtin.copy) or M(ansible.builtin.template) per file would need thousands of connections on a thousand
    nodes.
  - Replaces each file atomically, so that a reader sees either the old or the new one. Missing directories are created
    with mode V(0755).
  - Checks all files before it changes the first one.
  - At least one of O(files) and O(absent) is required.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  files:
    description: The files.
    type: list
    elements: dict
    suboptions:
      path:
        description: Absolute path.
        type: str
        required: true
      content:
        description: Content of the file. Required if O(files[].state=present), unless O(files[].src) is set.
        type: str
      src:
        description:
          - Absolute path of a file of the control node with the content, which may be binary. M(ansible.builtin.copy)
            copies it if the checksum on the managed node differs.
          - Such files are in place before the others are written.
          - Only O(files[].path) and O(files[].mode) can be set with it.
        type: path
        version_added: 0.3.0
      mode:
        description: Permissions as four octal digits.
        type: str
        default: "0644"
      marker:
        description:
          - If set, O(files[].content) is a block of lines in a file that others write, too. The line is a comment of
            the file with V({mark}), which becomes C(BEGIN) before the block and C(END) after it.
          - Empty content, or O(files[].state=absent), removes the block. A file without it keeps its owner and mode.
            A new block comes last in the file.
          - The blocks of M(ansible.builtin.blockinfile) have the same form. A link is followed.
        type: str
        version_added: 0.3.0
      replace:
        description:
          - Changes of the lines that others wrote, in a file with O(files[].marker). The module repeats them until they
            change nothing.
        type: list
        elements: dict
        default: []
        version_added: 0.3.0
        suboptions:
          regexp:
            description: Regular expression of Python. C(^) and C($) match at each line.
            type: str
            required: true
          by:
            description: What replaces each match, with references to its groups such as V(\\1).
            type: str
            required: true
      containing:
        description:
          - If set with O(files[].state=absent), only a regular file that contains this text is removed. So a file with
            the same name that another program wrote stays.
        type: str
        version_added: 0.3.0
      state:
        description: Whether the file exists. With V(absent), a directory is removed with its content.
        type: str
        choices: [present, absent]
        default: present
  absent:
    description:
      - Absolute paths of what must not exist, such as all files of a role that is removed. They are removed after
        O(files) are written.
      - A directory is removed with its content, a link without its target. A missing path, a path that is
        given twice, and a slash at the end of a path are no errors.
      - Unlike with O(files[].state=absent), the content is not read, and diff mode shows only what kind of file it was.
        So a secret is not shown.
      - C(/etc/gpucluster) and C(/var/lib/gpucluster) are removed with the last file in them.
    type: list
    elements: str
    version_added: 0.3.0
  requires:
    description:
      - Files that must be there before anything is written. If one of them differs, the module writes nothing and
        returns it in RV(lacking). The action sets it for files with O(files[].src).
    type: list
    elements: dict
    default: []
    version_added: 0.3.0
    suboptions:
      path:
        description: Absolute path of a regular file.
        type: str
        required: true
      sha1:
        description: SHA-1 checksum of the file, as M(ansible.builtin.copy) compares it.
        type: str
        required: true
      mode:
        description: Permissions as four octal digits.
        type: str
        required: true
  owner:
    description: User name or UID that owns the files.
    type: str
    default: root
  group:
    description: Group name or GID of the files.
    type: str
    default: root
  backup:
    description: Whether to keep a copy, with the time in its name, of each file whose content is replaced.
    type: bool
    default: false
    version_added: 0.3.0
  unsafe_writes:
    description:
      - Whether to write a file in place if it cannot be replaced, such as C(/etc/hosts) of a container, which the
        engine mounts.
    type: bool
    default: false
    version_added: 0.3.0
"""

EXAMPLES = r"""
- name: Install a drop-in and remove an old one
  hpcai.gpucluster.file_set:
    files:
      - path: /etc/slurm/prolog.d/50-hello
        content: |
          #!/bin/sh
          exit 0
        mode: "0755"
      - path: /etc/slurm/prolog.d/40-old
        state: absent

- name: Remove the files of a service, its state and its secrets
  hpcai.gpucluster.file_set:
    absent: [/etc/default/exporter, /etc/exporter.key, /var/lib/exporter]

- name: Add names to a file that others write, too
  hpcai.gpucluster.file_set:
    files:
      - path: /etc/hosts
        content: "10.0.0.10 head"
        marker: "# {mark} hpcai.gpucluster"

- name: Install every file of a directory of the role
  hpcai.gpucluster.file_set:
    files: "{{ dict(names | zip(contents)) | dict2items(key_name='path', value_name='content') }}"
  vars:
    paths: "{{ query('ansible.builtin.fileglob', 'program/*.py') | sort }}"
    names: "{{ paths | map('basename') | map('regex_replace', '^', '/usr/local/lib/program/') }}"
    contents: "{{ query('ansible.builtin.file', *paths, rstrip=false) }}"
"""

RETURN = r"""
files:
  description: Paths of the files that were written, corrected or removed.
  returned: success
  type: list
  elements: str
  sample: [/etc/slurm/prolog.d/50-hello]
lacking:
  description: Paths of O(requires) that are missing or different. Nothing was written then.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/bin/gpucluster-check]
"""

import contextlib
import errno
import grp
import hashlib
import os
import pwd
import shutil
import stat
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import file_set, whole_file

# What rename says of a mount point, and open of a directory that cannot be written.
NOT_REPLACED = (errno.EBUSY, errno.EACCES, errno.EPERM, errno.EROFS)


def identifier(name: str, kind: str) -> int:
    """Return the UID or GID of a name; raises KeyError."""
    if name.isdigit():
        return int(name)
    return pwd.getpwnam(name).pw_uid if kind == "user" else grp.getgrnam(name).gr_gid


def look(path: str) -> file_set.Found | None:
    """Return the present file; a link or another non-regular file counts as one with other content."""
    file = Path(path)
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            return file_set.Found("", -1, -1, -1)
        with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return file_set.Found(stream.read(), status.st_mode & 0o7777, status.st_uid, status.st_gid)
    except (FileNotFoundError, NotADirectoryError):
        return None


def kind(path: str) -> str:
    """Return what kind of file a path is, or an empty string if it does not exist."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return "link" if stat.S_ISLNK(mode) else "directory" if stat.S_ISDIR(mode) else "file"


def remove(path: str) -> None:
    """Remove a file, a link, or a directory with its content; raises OSError."""
    try:
        shutil.rmtree(path) if kind(path) == "directory" else Path(path).unlink()
    except FileNotFoundError:
        # Somebody else removed it, or a file below it, at the same time.
        if kind(path):
            remove(path)


def emptied(paths: set[str]) -> list[str]:
    """Return the directories of the collection that are empty without these paths."""
    return [
        directory
        for directory in file_set.OWN
        if directory in map(os.path.dirname, paths)
        and kind(directory) == "directory"
        and not {f"{directory}/{name}" for name in os.listdir(directory)} - paths  # noqa: PTH208
    ]


def lacks(one: dict[str, t.Any], uid: int, gid: int) -> bool:
    """Return whether a required file is missing or different."""
    try:
        status = os.lstat(one["path"])
        if not stat.S_ISREG(status.st_mode):
            return True
        content = Path(one["path"]).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return True
    owned = (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (int(one["mode"], 8), uid, gid)
    return not owned or hashlib.sha1(content, usedforsecurity=False).hexdigest() != one["sha1"]


def foreign(one: dict[str, t.Any]) -> bool:
    """Return whether a file that should be absent lacks the text by which the file to remove is known."""
    text = one.get("containing")
    if not text or one["state"] != "absent":
        return False
    found = look(one["path"])
    return found is not None and text not in found.content


def wanted(files: list[dict[str, t.Any]], uid: int, gid: int) -> list[file_set.Wanted]:
    """Return the wanted files from the module's options."""
    found = []
    for one in files:
        if foreign(one):
            continue
        path = os.path.realpath(one["path"]) if one.get("marker") else one["path"]
        content = one["content"] if one["state"] == "present" else None
        if one.get("marker"):
            before = look(path)
            text, block = before.content if before else "", content or ""
            content = file_set.with_block(file_set.replaced(text, one.get("replace", ())), block, one["marker"])
            if content == text and not block.strip():
                continue  # No block, as wanted: the file, its owner and its mode belong to others.
        found.append(file_set.Wanted(path, content, int(one["mode"], 8), uid, gid))
    return found


def apply(module: AnsibleModule, change: file_set.Change) -> None:
    """Apply one change; raises OSError."""
    one, file = change.wanted, Path(change.wanted.path)
    if one.content is None:
        remove(one.path)
        return
    if change.action == "write":
        file.parent.mkdir(0o755, parents=True, exist_ok=True)
        if module.params["backup"] and file.is_file():
            keep(file)
        write(one, module.params["unsafe_writes"])
    else:
        whole_file.correct(one.path, one.mode, (one.uid, one.gid))


def keep(file: Path) -> None:
    """Copy a file, with its owner and mode, to a name with the time; raises OSError."""
    status = file.stat()
    name = f"{file}.{os.getpid()}.{time.strftime('%Y-%m-%d@%H:%M:%S~')}"
    whole_file.replace(name, file.read_bytes(), status.st_mode & 0o7777, (status.st_uid, status.st_gid))


def write(one: file_set.Wanted, in_place: bool) -> None:
    """Replace a file, or write it in place if that is allowed and it cannot be replaced; raises OSError."""
    content = (one.content or "").encode("utf-8", "surrogateescape")
    try:
        whole_file.replace(one.path, content, one.mode, (one.uid, one.gid))
    except OSError as exc:
        if not in_place or exc.errno not in NOT_REPLACED:
            raise
        whole_file.rewrite(one.path, content, one.mode, (one.uid, one.gid))


def main() -> None:
    """Run the module."""
    file_options = {
        "path": {"type": "str", "required": True},
        "content": {"type": "str"},
        "src": {"type": "path"},
        "mode": {"type": "str", "default": "0644"},
        "marker": {"type": "str"},
        "replace": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {"regexp": {"type": "str", "required": True}, "by": {"type": "str", "required": True}},
        },
        "containing": {"type": "str"},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    required_options = {name: {"type": "str", "required": True} for name in ("path", "sha1", "mode")}
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "options": file_options},
            "absent": {"type": "list", "elements": "str"},
            "requires": {"type": "list", "elements": "dict", "default": [], "options": required_options},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str", "default": "root"},
            "backup": {"type": "bool", "default": False},
            "unsafe_writes": {"type": "bool", "default": False},
        },
        required_one_of=[["files", "absent"]],
        supports_check_mode=True,
    )
    files, absent = module.params["files"] or [], module.params["absent"] or []
    faults = file_set.problems(files, absent)
    if faults:
        module.fail_json(msg="; ".join(faults))
    try:
        uid, gid = identifier(module.params["owner"], "user"), identifier(module.params["group"], "group")
        lacking = [one["path"] for one in module.params["requires"] if lacks(one, uid, gid)]
        if lacking:
            module.exit_json(changed=False, files=[], lacking=lacking)
        changes = file_set.plan(wanted(files, uid, gid), look)
        kinds = {path: kind(path) for path in map(file_set.normal, absent)}
        gone = {*kinds, *(change.wanted.path for change in changes if change.wanted.content is None)}
        empty = [path for path in emptied(gone) if path not in kinds]
        removed = [path for path in kinds if kinds[path]]
        if not module.check_mode:
            for change in changes:
                apply(module, change)
            for path in removed:
                remove(path)
            for path in empty:
                with contextlib.suppress(OSError):  # somebody else has used or removed it meanwhile
                    os.rmdir(path)  # noqa: PTH106
    except (OSError, KeyError) as exc:
        module.fail_json(msg=f"cannot bring the files to their state: {exc}")
    shown = (
        {
            "diff": file_set.diff(changes)
            + file_set.removals({**{path: kinds[path] for path in removed}, **dict.fromkeys(empty, "directory")})
        }
        if module._diff
        else {}
    )
    paths = [change.wanted.path for change in changes] + removed + empty
    module.exit_json(changed=bool(paths), files=paths, lacking=[], **shown)


if __name__ == "__main__":
    main()
