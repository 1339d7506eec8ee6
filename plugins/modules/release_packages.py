#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install Debian packages of an upstream release."""

from __future__ import annotations

DOCUMENTATION = r"""
module: release_packages
short_description: Install Debian packages of an upstream release
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Installs packages that a project publishes as files, not in a repository. All of them are downloaded and verified
    before the first one is installed. They are installed together, so that packages that require each other's exact
    version can be replaced by another version.
  - dpkg reports the installed versions. A machine that has the version downloads nothing.
  - In check mode the files are downloaded and verified, but not installed. A missing directory of O(source) is then no
    error.
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
  names:
    description: Names of the packages.
    type: list
    elements: str
    required: true
  version:
    description: Version of the packages, as dpkg shows it. The files are C(NAME_VERSION_ARCHITECTURE.deb).
    type: str
    required: true
  source:
    description:
      - Location of the files, as a URL of their directory or as the path of a directory on the machine.
    type: str
    required: true
  checksums:
    description: Checksum by file name, as V(algorithm:digest). The algorithm is sha256, sha384 or sha512.
    type: dict
    required: true
  others:
    description: Packages of the distribution that are installed as well, in any version.
    type: list
    elements: str
    default: []
  retries:
    description: Number of retries after a failed download.
    type: int
    default: 2
  skip_unreachable:
    description: Whether to install nothing, with a warning, if the server does not answer. By default, it is an error.
    type: bool
    default: false
    version_added: 0.3.0
  timeout:
    description: Timeout for the answer of a server, in seconds.
    type: int
    default: 15
"""

EXAMPLES = r"""
- name: Install enroot
  hpcai.gpucluster.release_packages:
    names: [enroot, enroot+caps]
    version: 4.2.1-1
    source: https://mirror.example.com/enroot
    checksums:
      enroot_4.2.1-1_amd64.deb: sha256:5955c51e88df0c5ed538d87abb5264609d4bad55fa8570745ed5d4ec66c8ab91
      enroot+caps_4.2.1-1_amd64.deb: sha256:ca22652dcbdd3ebb6e2c68df781ef4301647c79dd7a41ed62899c2fd0f692750
  become: true
"""

RETURN = r"""
versions:
  description: Versions that were installed before, by package name.
  returned: success
  type: dict
  sample: {"enroot": "4.1.2-1"}
unreachable_url:
  description: URL that could not be downloaded because the server does not answer. Empty after any other failure.
  returned: failure, or if O(skip_unreachable) and the server does not answer
  type: str
  sample: https://mirror.example.com/enroot/enroot_4.2.1-1_amd64.deb
"""

import shutil
import time
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import release_packages as release

_OK = 200


class UnreachableError(Exception):
    """A server does not answer."""


def fetch(module: AnsibleModule, url: str, target: Path) -> None:
    """Download one file; raises UnreachableError or PackagesError."""
    for attempt in range(module.params["retries"] + 1):
        response, info = fetch_url(module, url, timeout=module.params["timeout"])
        if info["status"] == _OK:
            with target.open("wb") as stream:
                shutil.copyfileobj(response, stream)
            return
        if attempt < module.params["retries"]:
            time.sleep(1)
    # -1 is no answer at all; 500 and above is a proxy or a server without one.
    if info["status"] < 0 or info["status"] >= 500:
        raise UnreachableError(f"{url} cannot be reached: {info['msg']}")
    raise release.PackagesError(f"{url} cannot be fetched: {info['msg']}")


def bring(module: AnsibleModule, package: release.Package) -> Path:
    """Return the verified file of a package."""
    source = module.params["source"].rstrip("/")
    where = f"{source}/{package.file}"
    if "://" in source:
        path = Path(module.tmpdir) / package.file
        fetch(module, where, path)
    else:
        path = Path(where)
    release.verify(path, package.checksum, where)
    return path


def bring_all(module: AnsibleModule, wanted: t.Sequence[release.Package]) -> list[str]:
    """Return the verified files of all packages."""
    source = module.params["source"]
    if module.check_mode and "://" not in source and not Path(source).exists():
        return []  # Outside check mode, an earlier task has created them.
    return [str(bring(module, package)) for package in wanted]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "version": {"type": "str", "required": True},
            "source": {"type": "str", "required": True},
            "checksums": {"type": "dict", "required": True},
            "others": {"type": "list", "elements": "str", "default": []},
            "retries": {"type": "int", "default": 2},
            "skip_unreachable": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    params = module.params
    run = bounded_run.feeding_runner(bounded_run.WORK)
    try:
        found = release.installed(run, [*params["names"], *params["others"]])
        before = {name: version for name, version in found.items() if name in params["names"]}
        after = dict.fromkeys(params["names"], params["version"])
        others = [name for name in params["others"] if name not in found]
        changed = before != after or bool(others)
        if changed:
            wanted = release.packages(
                params["names"], params["version"], release.architecture(run), params["checksums"]
            )
            files = bring_all(module, wanted) if before != after else []
            if not module.check_mode:
                release.install(run, files, others)
    except UnreachableError as exc:
        url = str(exc).partition(" ")[0]
        if not params["skip_unreachable"]:
            module.fail_json(msg=str(exc), unreachable_url=url)
        module.warn(f"{' and '.join(params['names'])} {params['version']} not installed. {exc}")
        module.exit_json(changed=False, unreachable_url=url)
    except release.PackagesError as exc:
        module.fail_json(msg=str(exc), unreachable_url="")
    shown = {"diff": {"before": lines(before), "after": lines(after)}} if module._diff else {}
    module.exit_json(changed=changed, versions=before, **shown)


def lines(versions: dict[str, str]) -> str:
    """Return versions in the format of diff mode."""
    return "".join(f"{name} {version}\n" for name, version in sorted(versions.items()))


if __name__ == "__main__":
    main()
