# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site of the documentation is built without a network, it has every page, and no link is broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

CHECKOUT = Path(__file__).parents[3]
PUBLIC = ("modules", "filter", "inventory", "callback")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, built once."""
    directory = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        ["scripts/docs.sh", str(directory)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout
    return directory


def _checked(site: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, ".ci/site_links.py", str(site)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout


def test_every_page_of_the_repository_is_in_the_site(site: Path) -> None:
    names = ["index", "CONTRIBUTING", "CHANGELOG"]
    names += [f"docs/{page.stem}" for page in CHECKOUT.glob("docs/*.md")]
    names += [f"roles/{page.parent.name}/README" for page in CHECKOUT.glob("roles/*/README.md")]

    assert [name for name in names if not (site / f"{name}.html").is_file()] == []


def test_every_module_plugin_and_role_is_in_the_reference(site: Path) -> None:
    names = [f"{role.name}_role" for role in CHECKOUT.glob("roles/*") if role.is_dir()]
    for kind in PUBLIC:
        suffix = kind.removesuffix("s")
        names += [f"{file.stem}_{suffix}" for file in CHECKOUT.glob(f"plugins/{kind}/[a-z]*.py")]

    assert len(names) > 80
    reference = site / "collections/hpcai/gpucluster"
    assert [name for name in names if not (reference / f"{name}.html").is_file()] == []


def test_no_page_has_an_error_of_the_theme(site: Path) -> None:
    pages = [
        path for path in site.rglob("*.html") if re.search(r"system-message|class=\"problematic", path.read_text())
    ]

    assert pages == []
    assert "contents local" not in (site / "collections/hpcai/gpucluster/daemon_module.html").read_text("utf-8")


@pytest.mark.parametrize("link", ["docs/missing.html", "docs/tour.html#missing", "#missing", "docs"])
def test_a_broken_link_is_found(site: Path, tmp_path: Path, link: str) -> None:
    copy = tmp_path / "site"
    (copy / "docs").mkdir(parents=True)
    for name in ("tour.html", "users.html"):
        shutil.copy(site / "docs" / name, copy / "docs")
    (copy / "index.html").write_text(f'<p id="here"><a href="{link}">x</a><a href="#here">y</a></p>', encoding="utf-8")

    code, output = _checked(copy)

    assert code == 1
    assert f"index.html: broken link {link}\n" in output
    assert "#here" not in output


def test_a_site_without_links_is_not_called_good(tmp_path: Path) -> None:
    assert _checked(tmp_path)[0] == 1


def test_a_directory_with_other_files_is_kept(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years", encoding="utf-8")

    done = subprocess.run(
        ["scripts/docs.sh", str(tmp_path)], cwd=CHECKOUT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 1
    assert "Nothing was changed" in done.stderr
    assert (tmp_path / "thesis.txt").read_text("utf-8") == "years"
