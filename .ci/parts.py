# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the tests: gates, scenarios of Molecule, and the other releases of ansible-core."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

from lanes import Command, Part

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[1]
# Molecule's cluster from nothing, which belongs to every run.
MAIN = "site"
# The releases of ansible-core beside the one in requirements.txt, each with the package of PyPI that brings it.
CORES = {"2.20": "ansible==13.8.0", "2.21": "ansible==14.5.0"}
# Where the newer ones are looked for.
PYTHONS = ("3.14", "3.13", "3.12")
PYTEST = ("python3", "-m", "pytest", "--numprocesses=2", "-rfEs", "--durations=10")
UNIT = (*PYTEST, "--hypothesis-profile=gate")
# What another release of ansible-core can break.
OF_ANSIBLE = ("tests/unit/playbooks", "tests/unit/plugins", "tests/unit/roles")
# Only quiet_module.py in it imports ansible-core, and the tests of the modules run that.
OF_PYTHON = "tests/unit/plugins/module_utils"
INTEGRATION = (*PYTEST, "--dist=loadfile", "tests/integration")


def gates(stage: Path) -> list[Part]:
    """Return the parts that need no machines. C(stage) is a copy of the collection in a tree with its name."""
    root = stage.parents[2]
    packages = (
        "-p",
        "ansible_collections.hpcai.gpucluster.plugins",
        "-p",
        "ansible_collections.hpcai.gpucluster.tests",
    )
    importer = ("sh", "-c", "python3 -m galaxy_importer.main ./*.tar.gz")
    docs = ("antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs=dependent", ".")
    # The importer's own ansible-lint gives up after two minutes, and passes. The gate before it judges more.
    without = {"GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false"}
    # Each file whose first line names a shell; those of Markdown and templates are no programs yet.
    shell = (
        "git grep --untracked -lE '^#! ?/.*[/ ](ba)?sh( |$)' -- ':!*.md' ':!*.py' ':!*.yml' ':!*.j2'"
        " | xargs shellcheck --format=gcc"
    )
    style = (
        _here("ruff", "check", "--output-format=concise", "."),
        _here("ruff", "format", "--check", "."),
        _here("yamllint", "--strict", "--format=parsable", "."),
        _here("sh", "-c", shell),
    )
    checks = (
        _staged(stage, "antsibull-changelog", "lint"),
        _staged(stage, *docs),
        _staged(stage, "python3", ".ci/lint.py", "--format=pep8"),
    )
    return [
        _gate("style", *style),
        _gate("unit", _staged(stage, *UNIT, "tests/unit")),
        # Its cache is not among the files that sanity lists, which may run at the same time.
        _gate(
            "types",
            _staged(stage, "mypy", "--config-file", "pyproject.toml", f"--cache-dir={root / 'mypy'}", *packages),
        ),
        _gate("ansible-lint", *checks),
        # pylint takes longer than all the rest of it. Users run the plugins; the part pylint reads the tests, too.
        _gate("sanity", _sanity(stage, "--skip-test", "pylint"), _sanity(stage, "--test", "pylint", "plugins/")),
        _gate(
            "package",
            _staged(stage, "ansible-galaxy", "collection", "build", "--output-path", str(root / "dist")),
            Command(importer, root / "dist", without),
        ),
        # From the checkout, as a user does. They come last: when the cluster is done, they use both cores.
        _gate("integration", _here(*INTEGRATION)),
    ]


def scenarios(root: Path, folder: Path) -> list[Part]:
    """Return the scenarios that test something; C(folder) is for what Molecule keeps."""
    names = sorted(path.parent.name for path in root.glob("molecule/*/converge.yml"))
    return [Part(name, _molecule(name, folder / name, {}), repeat=True, applies=name) for name in names]


def cores(stage: Path, folder: Path) -> list[Part]:
    """Return the tests with each other release of ansible-core; none without a Python that it runs on."""
    python, parts = newer_python(), list[Part]()
    for release, package in CORES.items() if python else ():
        home = ROOT / ".cache/cores" / release
        found = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
        install = _here(".ci/core.sh", python, package, str(home))
        # The releases share a Python, so the newest one proves for all what depends on Python alone.
        less = () if release == max(CORES) else (f"--ignore={OF_PYTHON}",)
        tests = (install, _staged(stage, *UNIT, *OF_ANSIBLE, *less, **found), Command(INTEGRATION, ROOT, found))
        lab = _molecule("cores", folder / release, {**found, "GPUCLUSTER_CORE": release})
        parts.append(_gate(f"core-{release}", *tests)._replace(applies="*"))
        parts.append(Part(f"core-{release}-lab", _after(install, lab), repeat=True, applies="*"))
    return parts


def pylint(stage: Path) -> Part:
    """Return the gate that reads all Python files with pylint."""
    return _gate("pylint", _sanity(stage, "--test", "pylint"))._replace(applies="*")


def newer_python() -> str:
    """Return a Python for the newer releases of ansible-core, or nothing."""
    named = [found for version in PYTHONS if (found := shutil.which(f"python{version}"))]
    # pyenv has programs of these names even for versions that it does not start.
    managed = [str(path) for version in PYTHONS for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for path in [*named, *managed]:
        command = [path, "-m", "ensurepip", "--version"]
        if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0:
            return path
    return ""


def _gate(name: str, *commands: Command) -> Part:
    return Part(name, lambda _lane: commands)


def _after(first: Command, rest: Callable[[int], Sequence[Command]]) -> Callable[[int], Sequence[Command]]:
    return lambda lane: (first, *rest(lane))


def _here(*words: str) -> Command:
    return Command(words, ROOT, {})


def _staged(stage: Path, *words: str, **more: str) -> Command:
    """Return a command in the copy of the collection, which it imports by its name."""
    root = str(stage.parents[2])
    return Command(words, stage, {"ANSIBLE_COLLECTIONS_PATH": root, "PYTHONPATH": root, **more})


def _sanity(stage: Path, *words: str) -> Command:
    python = "{}.{}".format(*sys.version_info[:2])
    return _staged(stage, "ansible-test", "sanity", "--python", python, "--requirements", *words)


def _molecule(name: str, folder: Path, more: dict[str, str]) -> Callable[[int], Sequence[Command]]:
    """Return a scenario whose machines are those of its lane."""
    first = int(os.environ.get("GPUCLUSTER_LAB") or 100)

    def commands(lane: int) -> Sequence[Command]:
        environment = {"MOLECULE_EPHEMERAL_DIRECTORY": str(folder), "GPUCLUSTER_LAB": str(first + lane), **more}
        return [Command(("molecule", "test", "-s", name), ROOT, environment)]

    return commands
