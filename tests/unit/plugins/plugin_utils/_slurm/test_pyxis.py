# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import pyxis

# What config.c of each tag compares the words of the line with, read from NVIDIA's repository.
KNOWN = {
    "0.8.0": {"runtime_path", "execute_entrypoint", "remap_root"},
    "0.9.1": {"runtime_path", "execute_entrypoint", "remap_root", "container_scope"},
    "0.11.1": {"runtime_path", "execute_entrypoint", "remap_root", "container_scope"},
    "0.12.0": {"runtime_path", "execute_entrypoint", "container_scope", "sbatch_support"},
    "0.20.1": {"runtime_path", "execute_entrypoint", "container_scope", "sbatch_support"},
    "0.21.0": {
        "runtime_path",
        "execute_entrypoint",
        "container_scope",
        "sbatch_support",
        "use_enroot_load",
        "importer",
    },
    "0.24.0": {
        "runtime_path",
        "execute_entrypoint",
        "container_scope",
        "sbatch_support",
        "use_enroot_load",
        "importer",
        "use_squashfuse",
    },
}
RIGHT: dict[str, t.Any] = {
    "runtime_path": "/run/pyxis",
    "execute_entrypoint": False,
    "remap_root": True,
    "container_scope": "job",
    "sbatch_support": True,
    "use_enroot_load": True,
    "importer": "/usr/local/bin/importer",
    "use_squashfuse": False,
}


@pytest.mark.parametrize("version", KNOWN)
@pytest.mark.parametrize("name", RIGHT)
def test_each_release_takes_the_options_that_its_source_has(version: str, name: str) -> None:
    faults = pyxis.problems({name: RIGHT[name]}, version)

    assert bool(faults) == (name not in KNOWN[version])


def test_a_refusal_says_what_the_release_knows() -> None:
    assert pyxis.problems({"importer": "/x", "scope": "job"}, "0.20.0") == [
        "importer is no option of pyxis 0.20.0, which knows runtime_path, execute_entrypoint, container_scope, "
        "sbatch_support",
        "scope is no option of pyxis 0.20.0, which knows runtime_path, execute_entrypoint, container_scope, "
        "sbatch_support",
    ]


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ({"execute_entrypoint": 0}, "true or false"),
        ({"sbatch_support": "perhaps"}, "true or false"),
        ({"container_scope": "node"}, "job or global"),
        ({"runtime_path": "run/pyxis"}, "an absolute path without blanks"),
        ({"importer": "/opt/my importer"}, "an absolute path without blanks"),
    ],
)
def test_a_value_that_pyxis_does_not_take_is_refused(option: dict[str, t.Any], wanted: str) -> None:
    ((name, value),) = option.items()

    assert pyxis.problems(option, "0.24.0") == [f"{name} is {value!r}, and has to be {wanted}"]


def test_what_is_newer_than_the_table_may_know_more() -> None:
    assert pyxis.problems({"brand_new": "x", "container_scope": "job"}, "0.25.0") == []
    assert pyxis.problems({"brand_new": "two words"}, "0.25.0") == ["brand_new is 'two words', and has to be one word"]


def test_what_a_release_dropped_is_not_let_through_later() -> None:
    assert pyxis.problems({"remap_root": True}, "0.25.0")


@pytest.mark.parametrize("version", ["latest", "v0.24.0", "0.24", 0.24, ""])
def test_what_is_no_release_is_refused(version: t.Any) -> None:
    assert "is no release of pyxis" in pyxis.problems({}, version)[0]


def test_a_release_without_options_is_refused() -> None:
    assert pyxis.problems({}, "0.7.0") == ["pyxis 0.7.0 is older than 0.8.0, the first release with options"]


def test_options_are_words_in_their_order() -> None:
    options = {"runtime_path": "/run/pyxis", "sbatch_support": True, "execute_entrypoint": False, "importer": None}

    assert pyxis.arguments(options) == ["runtime_path=/run/pyxis", "sbatch_support=1", "execute_entrypoint=0"]


@given(st.dictionaries(st.sampled_from(sorted(RIGHT)), st.booleans() | st.text() | st.integers() | st.none()))
def test_what_is_let_through_stands_on_one_line(options: dict[str, t.Any]) -> None:
    if not pyxis.problems(options, "0.24.0"):
        words = pyxis.arguments(options)

        assert " ".join(words).split() == words
