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
    "vm_groups": ("g",),
    "vmss_groups": ("g",),
    "filters": {"names": ("a",)},
    "vmss_tags": True,
}


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_shapes_the_answer_is_in_the_key(name: str) -> None:
    plain, changed = module.Settings(), dataclasses.replace(module.Settings(), **{name: CHANGES[name]})

    assert plain.digest(["me"]) != changed.digest(["me"])
    assert plain.digest(["me"]) != plain.digest(["you"])
    assert set(CHANGES) == {field.name for field in dataclasses.fields(module.Settings)}


def test_a_cache_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    before = module.Settings().digest(["me"])
    monkeypatch.setattr(module, "SCHEMA", module.SCHEMA + 1)

    assert module.Settings().digest(["me"]) != before


def test_a_key_that_no_option_has_is_refused_with_the_one_that_was_meant() -> None:
    module.check_keys(["plugin"], {"plugin": 1})
    with pytest.raises(
        module.ConfigError, match="'include_vmss_resource_group'; did you mean 'include_vmss_resource_gr"
    ):
        module.check_keys(["include_vmss_resource_group"], ["include_vmss_resource_groups", "plugin"])
    with pytest.raises(module.ConfigError, match=r"'colour'$"):
        module.check_keys(["colour"], ["plugin"])
    with pytest.raises(module.ConfigError, match="conditional_groups is not supported; set groups"):
        module.check_keys(["conditional_groups"], ["plugin"])


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
