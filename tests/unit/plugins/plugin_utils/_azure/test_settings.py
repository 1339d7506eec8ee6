"""What is refused, and what makes two answers different."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import settings as module


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ([], "filters must be a mapping, found list"),
        ({"colour": 1}, "unknown key 'colour'; allowed keys: locations, names"),
        ({"locaton": 1}, "unknown key 'locaton'; did you mean 'locations'"),
        ({"tags": ["a"]}, "filters.tags must be a mapping"),
    ],
)
def test_wrong_filters_are_refused(filters: t.Any, text: str) -> None:
    with pytest.raises(module.ConfigError, match=text):
        module.check_filters(filters)


def test_wrong_api_versions_are_refused() -> None:
    with pytest.raises(module.ConfigError, match="'storage'; allowed keys: compute"):
        module.check_versions({"storage": "1"})


@pytest.mark.parametrize(
    ("environment", "option", "expected"),
    [
        (None, ["a", "a", " b "], ("a", "b")),
        ("x, y,", ["a"], ("x", "y")),
        (None, ["a", "*"], ("*",)),
        ("", [], ()),
        (None, None, ()),
    ],
)
def test_resource_groups(environment: str | None, option: t.Any, expected: tuple[str, ...]) -> None:
    assert module.split_groups(environment, option) == expected


CHANGES: dict[str, t.Any] = {
    "cloud": "AzureChinaCloud",
    "subscriptions": ("x",),
    "management_groups": ("m",),
    "vm_groups": ("g",),
    "vmss_groups": ("g",),
    "filters": {"names": ("a",)},
    "graph_where": "x",
    "source": "arm",
    "verify": "all",
    "vmss_tags": True,
    "placement_groups": True,
    "exact_ids": True,
}


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_shapes_the_answer_is_in_the_key(name: str) -> None:
    plain, changed = module.Settings(), dataclasses.replace(module.Settings(), **{name: CHANGES[name]})

    assert plain.digest(["me"]) != changed.digest(["me"])
    assert plain.digest(["me"]) != plain.digest(["you"])


def test_how_it_is_asked_is_not_in_the_key() -> None:
    # bound: the plugin's
    slow = module.Settings(concurrency=1, timeout=1, retries=1, max_wait=1, deadline=1, strict=True)

    assert slow.digest([]) == module.Settings().digest([])
    covered = {*CHANGES, "concurrency", "timeout", "retries", "max_wait", "deadline", "strict", "api_versions"}
    assert {field.name for field in dataclasses.fields(module.Settings)} == covered


def test_a_key_that_no_option_has_is_refused_with_the_one_that_was_meant() -> None:
    module.check_keys(["plugin"], {"plugin": 1})
    with pytest.raises(
        module.ConfigError, match="'include_vmss_resource_group'; did you mean 'include_vmss_resource_gr"
    ):
        module.check_keys(["include_vmss_resource_group"], ["include_vmss_resource_groups", "plugin"])
    with pytest.raises(module.ConfigError, match=r"'colour'$"):
        module.check_keys(["colour"], ["plugin"])


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [
        ("RG-HPC-1", ["rg-hpc-*"], True),
        ("rg-hpc", ["RG-HPC"], True),
        ("rg-hpc", ["rg-?pc"], True),
        ("rg-hpc-1", ["rg-hpc"], False),
        ("rg", [], False),
    ],
)
def test_names_fit_patterns_without_regard_to_case(name: str, patterns: list[str], expected: bool) -> None:
    assert module.fits(name, patterns) is expected


def test_names_of_tags_have_no_case() -> None:
    assert module.tag({"Env": "a"}, "env") == module.tag({"ENV": "b", "env": "a"}, "env") == "a"
    assert module.tag({"x": 1}, "env") is None
