"""The direct way must give what Jinja gives, or leave the expression to Jinja."""

from __future__ import annotations

import itertools
import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import expressions

SCOPE: dict[str, t.Any] = {
    "tags": {"role": "compute", "a.b": "dotted", "empty": "", "evil": "{{ 1 + 1 }}", "items": "method"},
    "size": "Standard_D4s_v5",
    "nothing": None,
    "number": 1,
    "zones": ["1", "2"],
    "vmss": {},
}
LEFT = object()

PATHS = (
    "tags.role",
    "tags['a.b']",
    "tags.empty",
    "tags.none",
    "size",
    "number",
    "nothing",
    "zones",
    "vmss.name",
    "gone",
    "tags.evil",
    "tags",
)
ENDS = ("", " | default('x')", " | default('x', true)", '|default("")', " | default('x', True) ")
TESTS = (
    "== 'compute'",
    "== '1'",
    "in ['1']",
    "!= 'compute'",
    "in ['compute', \"x\"]",
    "not in ['compute']",
    "is defined",
    "is not defined",
)


def by_jinja(expression: str) -> t.Any:
    templar = Templar(loader=DataLoader(), variables=SCOPE)
    try:
        return templar.evaluate_expression(trust_as_template(expression))
    except Exception:
        return LEFT


def directly(expression: str) -> t.Any:
    read = expressions.value_of(expression) or expressions.test_of(expression)
    assert read, expression
    try:
        return read(SCOPE)
    except (expressions.MissingError, expressions.LeaveToJinjaError):
        return LEFT


@pytest.mark.parametrize(("path", "end"), list(itertools.product(PATHS, ENDS)))
def test_values_are_those_of_jinja(path: str, end: str) -> None:
    assert directly(path + end) == by_jinja(path + end)


@pytest.mark.parametrize(("path", "test"), list(itertools.product(PATHS, TESTS)))
def test_conditions_are_those_of_jinja(path: str, test: str) -> None:
    assert directly(f"{path} {test}") == by_jinja(f"{path} {test}")


@pytest.mark.parametrize("expression", ["'omp' in tags.role", "'1' in zones", "'role' in tags", "'z' not in tags.role"])
def test_parts_are_those_of_jinja(expression: str) -> None:
    assert directly(expression) == by_jinja(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "tags.items",
        "tags.role | upper",
        "tags[size]",
        "a + b",
        "true",
        "none.x if true else 1",
        "zones[0]",
        "size.upper()",
        "tags.role | default(other)",
        "lookup('pipe', 'id')",
        "powerstate != 'a' and size == 'b'",
        "'\\'' in size",
        "",
    ],
)
def test_everything_else_is_left_to_jinja(expression: str) -> None:
    assert expressions.value_of(expression) is None
    assert expressions.test_of(expression) is None


def test_a_gap_in_the_middle_is_left_to_jinja() -> None:
    read = expressions.value_of("tags.gone.deeper | default('x')")
    assert read
    with pytest.raises(expressions.LeaveToJinjaError):
        read(SCOPE)


def test_a_value_that_looks_like_a_template_stays_a_text() -> None:
    assert directly("tags.evil") == "{{ 1 + 1 }}"
