# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario is proved for the files that it applies; what nobody knows counts for all."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program, tree_of_the_collection

ROOT = Path(__file__).parents[3]
proofs = ci_program("proofs")
TASKS, VERIFY = "roles/munge/tasks/main.yml", "molecule/munge/verify.yml"
USES_KEY, OTHER = "- hpcai.gpucluster.key: {}", "roles/other/tasks/main.yml"
PLUGINS = "from ansible_collections.hpcai.gpucluster.plugins"
MUNGE = {"molecule/munge/converge.yml": "- {hosts: all, roles: [hpcai.gpucluster.munge]}"}


def empty(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "")


@pytest.fixture
def of(tmp_path: Path) -> t.Callable[..., set[str]]:
    """Return a function that makes a tree of files, and says which a scenario applies."""

    def find(scenario: str, files: t.Mapping[str, str]) -> set[str]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return t.cast("set[str]", proofs.Tree(tmp_path, files).of(scenario))

    return find


@pytest.mark.parametrize(
    ("files", "applied"),
    [
        ({TASKS: "", "roles/munge/README.md": "", OTHER: ""}, "roles/munge/tasks/main.yml"),
        (
            {
                TASKS: USES_KEY,
                **empty("plugins/modules/key.py plugins/action/key.py plugins/modules/x.py"),
            },
            f"{TASKS} plugins/modules/key.py plugins/action/key.py",
        ),
        (
            {
                TASKS: USES_KEY,
                "plugins/modules/key.py": f"{PLUGINS}.module_utils._a import b",
                "plugins/module_utils/_a/b.py": f"{PLUGINS}.module_utils import _c",
                **empty("plugins/module_utils/_a/c.yml plugins/module_utils/_c/d.py plugins/module_utils/_e/f.py"),
            },
            f"{TASKS} plugins/modules/key.py plugins/module_utils/_a/b.py plugins/module_utils/_a/c.yml "
            "plugins/module_utils/_c/d.py",
        ),
        (
            {TASKS: "- {entry: _a.cli}", **empty("plugins/module_utils/_a/b.py")},
            f"{TASKS} plugins/module_utils/_a/b.py",
        ),
        (
            {
                VERIFY: "- {import: ../../playbooks/a.yml}",
                "playbooks/a.yml": "- {import: parts/b.yml}",
                **empty("playbooks/parts/b.yml playbooks/c.yml"),
            },
            f"{VERIFY} playbooks/a.yml playbooks/parts/b.yml",
        ),
        (
            {VERIFY: "- {x: '{{ y }}/../../tests/server'}", **empty("tests/server/a.py tests/other/a.py")},
            f"{VERIFY} tests/server/a.py",
        ),
        ({VERIFY: "- {x: 'hpcai.gpucluster.{{ y }}'}", **empty(f"{TASKS} {OTHER}")}, f"{VERIFY} {TASKS} {OTHER}"),
        (empty("docs/a.md README.md changelogs/fragments/a.yml tests/unit/test_a.py molecule/other/verify.yml"), ""),
        (empty("ansible.cfg new/a.txt molecule/shared/a.yml"), "ansible.cfg new/a.txt molecule/shared/a.yml"),
        ({VERIFY: "- {fail_msg: see playbooks/a.yml}", "playbooks/a.yml": ""}, VERIFY),
        (
            {
                VERIFY: "- {import: ../../playbooks/a.yml}",
                "playbooks/a.yml": "[{cmd: \"{{ files ~ '/a.sh' }}\", msg: \"{{ lookup('x', 'templates/a.j2') }}\"}]",
                **empty("playbooks/files/a.sh playbooks/templates/a.j2"),
            },
            f"{VERIFY} playbooks/a.yml playbooks/files/a.sh playbooks/templates/a.j2",
        ),
    ],
)
def test_a_scenario_applies_what_its_files_name(
    files: dict[str, str], applied: str, of: t.Callable[..., set[str]]
) -> None:
    assert of("munge", {**MUNGE, **files}) == {*MUNGE, *applied.split()}


def test_what_is_no_scenario_applies_all(of: t.Callable[..., set[str]]) -> None:
    files = {**MUNGE, **empty("tests/unit/test_a.py roles/a/tasks/main.yml docs/a.md changelogs/fragments/a.yml")}

    assert of("*", files) == set(files)


def test_a_file_that_is_removed_meanwhile_changes_the_digest(tmp_path: Path) -> None:
    path = tmp_path / "molecule/munge/converge.yml"
    path.parent.mkdir(parents=True)
    path.write_text("- x", "utf-8")
    tree = proofs.Tree(tmp_path, ["molecule/munge/converge.yml"])
    before = tree.digest("munge")
    path.unlink()

    assert tree.digest("munge") != before


def test_the_digest_is_of_names_modes_and_contents(tmp_path: Path) -> None:
    path = tmp_path / "molecule/munge/a.sh"
    path.parent.mkdir(parents=True)
    digests = []

    def digest() -> None:
        digests.append(proofs.Tree(tmp_path, [str(path.relative_to(tmp_path))]).digest("munge"))

    path.write_text("a", "utf-8")
    digest()
    path.write_text("b", "utf-8")
    digest()
    path.chmod(0o755)
    digest()
    path = path.rename(path.with_name("b.sh"))
    digest()

    assert len(set(digests)) == 4


def test_a_proof_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    proofs.write(tmp_path, "site", "abc", 12)
    proofs.write(tmp_path, "nfs", "def", 3)
    proofs.write(tmp_path, "site", "ghi", 13)

    found = proofs.read(tmp_path)

    assert {name: (proof.digest, proof.seconds) for name, proof in found.items()} == {
        "site": ("ghi", 13),
        "nfs": ("def", 3),
    }
    assert len((tmp_path / proofs.PROVED).read_text("utf-8").splitlines()) == 4


@pytest.fixture(scope="module")
def tree() -> t.Any:
    return tree_of_the_collection()


@pytest.mark.parametrize(
    ("scenario", "applied", "not_applied"),
    [
        ("gpu", "plugins/modules/nvidia_clocks.py", "roles/nfs/defaults/main.yml"),
        ("nfs", "plugins/module_utils/_storage/fstab.py", "molecule/site/verify.yml"),
        ("site", "docs/tour.md", "plugins/plugin_utils/_azure_cluster/template.py"),
        ("site", "roles/health/tasks/main.yml", "molecule/nfs/verify.yml"),
        ("validate", "plugins/plugin_utils/_validation/search.py", "tests/unit/conftest.py"),
        ("site", "tests/simulation/nvidia_simulation/cli.py", "tests/unit/conftest.py"),
        ("munge", "playbooks/files/lab_image.sh", "molecule/site/verify.yml"),
        ("site", "playbooks/templates/pinning.txt.j2", "molecule/nfs/verify.yml"),
    ],
)
def test_a_scenario_of_today_applies_what_it_tests(scenario: str, applied: str, not_applied: str, tree: t.Any) -> None:
    files = tree.of(scenario)

    assert (ROOT / applied).exists()
    assert (ROOT / not_applied).exists()
    assert applied in files
    assert not_applied not in files
