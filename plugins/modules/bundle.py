#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that packs and unpacks the archive of a cluster without internet."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bundle
short_description: Pack or unpack a bundle for a cluster without internet
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Packs a directory as one archive. Its first file is C(manifest.json), with the size, the SHA-256 checksum and the
    licence of each file.
  - Unpacks such an archive and compares every file with the manifest. The playbooks use it on the control node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: partial
    details: With O(state=unpacked), the archive is unpacked in check mode as well, because other tasks read its files.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: With O(state=packed), every run writes the archive.
options:
  path:
    description: Path of the archive.
    type: path
    required: true
  directory:
    description: The directory to pack, or the parent of the directory to unpack into.
    type: path
    required: true
  state:
    description: Whether to pack or to unpack.
    type: str
    choices: [packed, unpacked]
    required: true
  about:
    description: More keys of the manifest. Used with O(state=packed).
    type: dict
    default: {}
  licences:
    description:
      - Licences of files by the start of their path in the archive. Used with O(state=packed).
      - The licences of packages, wheels and collections are read from them.
    type: dict
    default: {}
  checksum:
    description: Checksum of the archive as V(sha256:digest), compared before it is unpacked. Empty for no comparison.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Unpack a bundle
  hpcai.gpucluster.bundle:
    path: /srv/gpucluster-bundle.tar
    directory: ~/.cache/gpucluster/bundle
    state: unpacked
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The archive, or the directory with its files.
  returned: success
  type: str
  sample: /root/.cache/gpucluster/bundle/3f1c2a9d0b7e
about:
  description: The keys of the manifest without the files.
  returned: success
  type: dict
files:
  description: Number of files.
  returned: success
  type: int
  sample: 412
bytes:
  description: Size of the files.
  returned: success
  type: int
  sample: 314572800
sha256:
  description: Checksum of the archive.
  returned: O(state=packed)
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive, licences


def _packed(params: t.Mapping[str, t.Any]) -> tuple[bool, dict[str, t.Any]]:
    directory, target = Path(params["directory"]), Path(params["path"])
    manifest = archive.pack(directory, target, params["about"], licences.of_tree(directory, params["licences"]))
    return True, {"path": str(target), "manifest": manifest, "sha256": archive.digest(target)}


def _unpacked(params: t.Mapping[str, t.Any]) -> tuple[bool, dict[str, t.Any]]:
    source = Path(params["path"])
    if not source.is_file():
        raise archive.BundleError(f"gpucluster_bundle: found {source}, which is no file; allowed: a file of bundle.yml")
    if params["checksum"] and f"sha256:{archive.digest(source)}" != params["checksum"]:
        raise archive.BundleError(
            f"gpucluster_bundle_checksum: found {params['checksum']}; allowed: the checksum of {source},"
            f" which is sha256:{archive.digest(source)}"
        )
    found = archive.unpack(source, Path(params["directory"]))
    return found.changed, {"path": str(found.path), "manifest": found.manifest}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "directory": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["packed", "unpacked"], "required": True},
            "about": {"type": "dict", "default": {}},
            "licences": {"type": "dict", "default": {}},
            "checksum": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    if module.check_mode and module.params["state"] == "packed":
        module.exit_json(changed=True, path=module.params["path"], about=module.params["about"], files=0, bytes=0)
    try:
        changed, result = {"packed": _packed, "unpacked": _unpacked}[module.params["state"]](module.params)
    except (archive.BundleError, OSError) as exc:
        module.fail_json(msg=str(exc))
    files = result["manifest"].pop("files")
    about = result.pop("manifest")
    sizes = sum(entry["bytes"] for entry in files.values())
    module.exit_json(changed=changed, about=about, files=len(files), bytes=sizes, **result)


if __name__ == "__main__":
    main()
