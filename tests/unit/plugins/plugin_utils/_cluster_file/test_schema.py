# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""schema.json and its validator: the same verdicts as a complete validator, and names that the collection knows."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jsonschema
import pytest
from ansible.module_utils.common.yaml import yaml_load
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import inventory, schema
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types

ROOT = Path(__file__).parents[5]
EXAMPLES = sorted((ROOT / "inventories/examples").glob("*/cluster.yml"))
SMALL: dict[str, t.Any] = {"plugin": "hpcai.gpucluster.cluster", "name": "c", "machines": {}}
# Inputs of Ansible itself, and of playbooks.
OTHERS = ("ansible_", "azure_cluster")
KINDS = {"bool": "boolean", "dict": "object", "list": "array", "str": "string", "path": "string", "int": "integer"}


def _complete(data: t.Any) -> bool:
    return jsonschema.Draft202012Validator(schema.load()).is_valid(data)


def _parts(part: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield each mapping of the schema."""
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _parts(inner)


VARIABLES = [part for part in _parts(schema.load()) if isinstance(part.get("x-variable"), str)]


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.load())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_both_validators_accept_the_examples(path: Path) -> None:
    data = yaml_load(path.read_text(encoding="utf-8"))

    assert list(schema.faults(data)) == []
    assert _complete(data)


@pytest.mark.parametrize("part", VARIABLES, ids=lambda part: part["x-variable"])
def test_each_variable_is_an_input_of_the_same_type(part: dict[str, t.Any]) -> None:
    name = part["x-variable"]
    if name.startswith(OTHERS):
        return
    option = inputs_types.options().get(name) or rules.CLUSTER[name]
    assert part.get("type", "string") == KINDS[option["type"]]
    if option.get("choices"):
        assert sorted(part["enum"]) == sorted(option["choices"])


def test_each_key_has_a_description() -> None:
    keys = [(name, key) for part in _parts(schema.load()) for name, key in (part.get("properties") or {}).items()]

    assert len(keys) > 80
    assert [name for name, key in keys if not key.get("description")] == []


def test_the_sizes_for_completion_are_in_the_catalogue() -> None:
    assert set(schema.load()["$defs"]["vm_size"]["examples"]) <= {"auto", *records.names()}


def test_the_roles_are_those_of_the_groups() -> None:
    assert schema.load()["$defs"]["role"]["enum"] == list(inventory.GROUPS)


def test_the_validator_knows_every_keyword_of_the_schema() -> None:
    known = {"$schema", "$id", "$ref", "$defs", "title", "description", "examples", "type", "const", "enum", "pattern"}
    known |= {"minimum", "maximum", "minLength", "minItems", "items", "properties", "patternProperties", "required"}
    known |= {"additionalProperties", "propertyNames", "anyOf", "x-allowed", "x-secret", "x-variable", "x-slurm"}
    known |= {"x-range"}

    def words(part: t.Any) -> t.Iterator[str]:
        yield from part
        for key in ("items", "additionalProperties", "propertyNames"):
            if isinstance(part.get(key), dict):
                yield from words(part[key])
        for key in ("properties", "patternProperties", "$defs"):
            for inner in part.get(key, {}).values():
                yield from words(inner)
        for inner in part.get("anyOf", ()):
            yield from words(inner)

    assert set(words(schema.load())) <= known


_LEAF = st.one_of(st.none(), st.booleans(), st.integers(-2, 70000), st.sampled_from(["", "a", "A b", "compute", "UP"]))
_VALUE = st.recursive(
    _LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "roles", "uid", "B"]), inner, max_size=2)
    ),
    max_leaves=5,
)
_KEYS = sorted({name for part in _parts(schema.load()) for name in part.get("properties") or {}})


@given(st.sampled_from(sorted(schema.load()["properties"])), _VALUE)
def test_both_validators_agree_on_a_key(key: str, value: t.Any) -> None:
    data = {**SMALL, key: value}

    assert (not list(schema.faults(data))) == _complete(data)


@given(
    st.sampled_from(["machines", "users", "partitions", "user_groups", "features", "slurm", "storage", "connection"]),
    st.dictionaries(st.sampled_from(_KEYS), _VALUE, max_size=3),
)
def test_both_validators_agree_on_inner_keys(key: str, inner: dict[str, t.Any]) -> None:
    named = key in ("machines", "users", "partitions", "user_groups")
    data = {**SMALL, key: {"gpu1": inner} if named else inner}

    assert (not list(schema.faults(data))) == _complete(data)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 5}, "name: found 5; allowed: lower-case letters, digits, _ and -, such as training"),
        ({"admin": []}, "admin: found an unknown key; allowed: plugin, name,"),
        ({"admin": []}, "; did you mean admins?"),
        (
            {"machines": {"a": {"roles": "Controler"}}},
            "machines.a.roles: found 'Controler'; allowed: controller, database, build, login, compute, nfs_server,"
            " nfs_client, monitoring; did you mean controller?",
        ),
        ({"machines": {"a": {}}}, "machines.a.roles: found nothing; allowed: a role or a list of roles"),
        ({"machines": {"a": {"roles": []}}}, "machines.a.roles: found []; allowed: "),
        ({"machines": {"a": {"roles": "login", "port": 0}}}, "found 0; allowed: a whole number from 1 to 65535"),
        ({"users": {"a": {"uid": True}}}, "users.a.uid: found True; allowed: a whole number of 1 or more"),
        ({"users": None}, "users: found nothing; allowed: a mapping of names to values"),
        ({"features": {"x11": "on"}}, "features.x11: found 'on'; allowed: true or false"),
        ({"partitions": {"p": {"max_time": 86400}}}, "partitions.p.max_time: found 86400; allowed: a time in quotes"),
        ({"partitions": {"p": {"state": "Up"}}}, "allowed: UP, DOWN, DRAIN, INACTIVE; did you mean UP?"),
        ({"slurm": {"topology_plugin": "ring"}}, "allowed: '', tree, block"),
        ({True: 1}, "True: found True; allowed: a name"),
    ],
)
def test_a_fault_names_key_found_and_allowed(change: dict[t.Any, t.Any], sentence: str) -> None:
    found = [str(fault) for fault in schema.faults({**SMALL, **change})]

    assert any(sentence in line for line in found), found


def test_a_hash_in_clear_text_is_refused_and_not_shown() -> None:
    (fault,) = schema.faults({**SMALL, "users": {"a": {"uid": 1, "password": "$6$salt$hash"}}})

    assert str(fault).startswith("users.a.password: found a value that is not shown here; allowed: a reference")
    assert "hash" not in str(fault).replace("vault_password", "")


def test_a_vaulted_value_is_not_decrypted() -> None:
    class EncryptedString:
        """Ansible's class for !vault, which decrypts when it becomes a string."""

        def __str__(self) -> str:
            raise AssertionError("decrypted")

    assert not list(schema.faults({**SMALL, "users": {"a": {"uid": 1, "password": EncryptedString()}}}))


@pytest.mark.parametrize("value", [[], "text", None, 5])
def test_a_file_that_is_no_mapping_is_refused(value: t.Any) -> None:
    (fault,) = schema.faults(value)

    assert "allowed: a mapping of names to values" in str(fault)
