# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Build queries for Azure Resource Graph, and read all pages of an answer."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import BrokenAnswerError, RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client

    Row = dict[str, t.Any]

T = t.TypeVar("T")

PATH = "/providers/Microsoft.ResourceGraph/resources"
PAGE = 1000  # the most rows that one answer can contain
SCOPE = 300  # subscriptions per query
QUOTA = 15  # queries in five seconds

VM = "microsoft.compute/virtualmachines"
INSTANCE = "microsoft.compute/virtualmachinescalesets/virtualmachines"
NIC = "microsoft.network/networkinterfaces"
INSTANCE_NIC = f"{INSTANCE}/networkinterfaces"
ADDRESS = "microsoft.network/publicipaddresses"
INSTANCE_ADDRESS = f"{INSTANCE_NIC}/ipconfigurations/publicipaddresses"
SCALE_SET = "microsoft.compute/virtualmachinescalesets"

COMMON = "id, name, type, location, resourceGroup, subscriptionId"
WHOLE = f"{COMMON}, zones, tags, plan, sku, identity, properties"  # if Azure refuses the exact projection

_OF_A_MACHINE = {
    "vmId": "properties.vmId",
    "vmSize": "properties.hardwareProfile.vmSize",
    "provisioningState": "properties.provisioningState",
    "timeCreated": "properties.timeCreated",
    "licenseType": "properties.licenseType",
    "priority": "properties.priority",
    "computerName": "properties.osProfile.computerName",
    "osType": "properties.storageProfile.osDisk.osType",
    "osDiskName": "properties.storageProfile.osDisk.name",
    "osDiskId": "properties.storageProfile.osDisk.managedDisk.id",
    "vmssId": "properties.virtualMachineScaleSet.id",
    "ppgId": "properties.proximityPlacementGroup.id",
}
_RAW_OF_A_MACHINE = {
    "imageReference": "properties.storageProfile.imageReference",
    "dataDisks": "properties.storageProfile.dataDisks",
    "nics": "properties.networkProfile.networkInterfaces",
    "instanceView": "properties.extended.instanceView",
}
MACHINE = ", ".join(
    [f"{COMMON}, zones, tags, plan, sku, identityType = tostring(identity.type)"]
    + [f"{name} = tostring({path})" for name, path in _OF_A_MACHINE.items()]
    + ["isWindows = isnotnull(properties.osProfile.windowsConfiguration)"]
    + [f"{name} = {path}" for name, path in _RAW_OF_A_MACHINE.items()]
)
NIC_COLUMNS = (
    "id, name, vmId = tolower(tostring(properties.virtualMachine.id)), isPrimary = properties.primary, "
    "mac = tostring(properties.macAddress), nsgId = tostring(properties.networkSecurityGroup.id), "
    "accelerated = properties.enableAcceleratedNetworking, ipConfigurations = properties.ipConfigurations"
)
# The same columns next to those of the machine of the interface.
_JOINED_NIC_COLUMNS = NIC_COLUMNS.replace("id, name, vmId =", "nicId = id, nicName = name, vmKey =")
ADDRESS_COLUMNS = (
    "id, name, ip = tostring(properties.ipAddress), fqdn = tostring(properties.dnsSettings.fqdn), "
    "version = tostring(properties.publicIPAddressVersion)"
)
SCALE_SET_COLUMNS = (
    f"{COMMON}, tags, sku, mode = tostring(properties.orchestrationMode), "
    "singlePlacementGroup = properties.singlePlacementGroup"
)


class GraphError(RequestError):
    """The answers of Resource Graph are inconsistent; use the other route."""

    def __init__(self, text: str) -> None:
        super().__init__(200, "Inconsistent", text, where="POST Resource Graph")


class Query(t.NamedTuple):
    """A query, and its replacement if Azure supports less than its documentation says."""

    text: str
    plain: str


def literal(text: str) -> str:
    """Return a string as a literal of the query language; user input enters a query only through this function."""
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ConfigError(f"the filter value {text!r} has a control character, which Resource Graph does not allow")
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def conditions(filters: Mapping[str, t.Any], groups: Sequence[str], extra: str = "") -> list[str]:
    """Return the where clauses of the filters that the server can apply; the client applies all filters again."""
    found = []
    if groups and "*" not in groups:
        found.append(f"resourceGroup in~ ({_literals(groups)})")
    columns = {"resource_groups": "resourceGroup", "locations": "location", "names": "name"}
    found += [f"{column} in~ ({_literals(filters[key])})" for key, column in columns.items() if filters.get(key)]
    for tag, values in (filters.get("tags") or {}).items():
        found += _tag_condition(tag, values)
    if extra:
        found.append(f"({' '.join(extra.split())})")
    return found


def _tag_condition(tag: str, values: tuple[str, ...] | None) -> list[str]:
    """
    Return a condition that every selected machine meets.

    Resource Graph considers the case of tag names and Azure ignores it, so both sides are in lower case. The client
    checks the case of the value. Strings without a simple lower case are checked only by the client.
    """
    if not all(text.isascii() for text in (tag, *(values or ()))):
        return []
    column = f"parse_json(tolower(tostring(tags)))[{literal(tag.lower())}]"
    if values is None:
        return [f"isnotnull({column})"]
    return [f"tostring({column}) in ({_literals(value.lower() for value in values)})"]


def table(kind: str) -> str:
    """Return the table that contains a type; instances of uniform scale sets have their own table."""
    return "ComputeResources" if kind.startswith(INSTANCE) else "resources"


def _source(kind: str, where: Iterable[str] = ()) -> list[str]:
    return [table(kind), f"| where type =~ '{kind}'", *(f"| where {condition}" for condition in where)]


def query(kind: str, columns: str, where: Iterable[str] = ()) -> Query:
    """Return the query for all resources of a type that meet the conditions."""
    lines = _source(kind, where)
    end = "| order by id asc"
    return Query("\n".join([*lines, f"| project {columns}", end]), "\n".join([*lines, f"| project {WHOLE}", end]))


def joined(kind: str, where: Iterable[str]) -> Query:
    """
    Return the query for machines joined with their interfaces, one row per interface; it halves the queries.

    Machines without an interface are included. The only replacement is to query both separately.
    """
    nic_kind, owner = (NIC, "tostring(properties.virtualMachine.id)")
    if kind == INSTANCE:
        nic_kind, owner = (INSTANCE_NIC, "tostring(split(tolower(id), '/networkinterfaces/')[0])")
    columns = _JOINED_NIC_COLUMNS.replace("tostring(properties.virtualMachine.id)", owner)
    nics = [*_source(nic_kind), f"| project {columns}"]
    lines = [
        *_source(kind, where),
        f"| project vmKey = tolower(id), {MACHINE}",
        f"| join kind=leftouter ({' '.join(nics)}) on vmKey",
        "| project-away vmKey, vmKey1",
        "| order by id asc, nicId asc",
    ]
    return Query("\n".join(lines), "\n".join(lines))


def nic_of(row: Row) -> Row | None:
    """Return the interface in the row of a machine in the form of its own row, or None."""
    if not row.get("nicId"):
        return None
    columns = ("isPrimary", "mac", "nsgId", "accelerated", "ipConfigurations")
    return {"id": row["nicId"], "name": row["nicName"], "vmId": str(row["id"]).lower(), **{c: row[c] for c in columns}}


def ids(kind: str, where: Iterable[str]) -> Query:
    """Return the query for ids only."""
    text = "\n".join([*_source(kind, where), "| project id", "| order by id asc"])
    return Query(text, text)


SUBSCRIPTIONS = Query(
    *[
        """resourcecontainers
| where type =~ 'microsoft.resources/subscriptions'
| project id, name, subscriptionId
| order by id asc"""
    ]
    * 2
)


class Page(t.NamedTuple):
    """One page of an answer: the rows, their keys, and the link to the next page."""

    rows: list[t.Any]
    ids: set[str]
    token: str
    total: int


class Begun(t.NamedTuple):
    """The first page of an answer with many pages; the other pages can be read in parallel."""

    first: Page
    size: int
    text: str
    scope: Mapping[str, t.Any]


def rows(
    client: Client, version: str, scope: Mapping[str, t.Any], asked: Query, convert: Callable[[Row], T]
) -> list[T]:
    """Return every row of a query, converted page by page; never fewer than Azure announces."""
    return t.cast("list[T]", begin(client, version, scope, asked, convert, many=0))


def page(
    client: Client, version: str, begun: Begun, convert: Callable[[Row], t.Any], skip: int = 0, token: str = ""
) -> Page:
    """Return one more page of an answer, by the number of rows to skip or by the token of the previous page."""
    reader = _Reader(client, version, begun.scope, begun.text, begun.size)
    try:
        return reader.page(convert, token, skip)
    except _InconsistentError as exc:
        raise GraphError(str(exc)) from None


def begin(
    client: Client,
    version: str,
    scope: Mapping[str, t.Any],
    asked: Query,
    convert: Callable[[Row], T],
    many: int = 4,
) -> list[T] | Begun:
    """Return every row of a query, or only its first page if it has at least this many pages (0: every row)."""
    text = asked.text
    for attempt in range(3):
        try:
            reader = _Reader(client, version, scope, text)
            first = reader.page(convert)
            if many and first.token and first.total > (many - 1) * reader.size:
                return Begun(first, reader.size, text, scope)
            return reader.read(convert, first)
        except BrokenAnswerError:
            raise
        except RequestError as exc:
            if exc.status == 400 and text != asked.plain:
                text = asked.plain
                continue
            raise
        except _InconsistentError as exc:
            if attempt == 2:
                raise GraphError(str(exc)) from None
            continue
    raise GraphError("Resource Graph gave different answers to one query three times")


class _InconsistentError(Exception):
    """The pages of one answer are inconsistent; a new query may help."""


class _Reader:
    """One pass over all pages of one query."""

    def __init__(self, client: Client, version: str, scope: Mapping[str, t.Any], text: str, size: int = PAGE) -> None:
        self._client = client
        self._query = {"api-version": version}
        self._body = {**scope, "query": text}
        self.size = size

    def read(self, convert: Callable[[Row], T], first: Page) -> list[T]:
        """Return all rows after a check that none is missing or duplicate."""
        found, ids, tokens, last = list(first.rows), set(first.ids), {""}, first
        while last.token:
            if last.token in tokens or not last.rows:
                raise _InconsistentError("Resource Graph's skip token leads in a circle")
            tokens.add(last.token)
            last = self.page(convert, last.token)
            found += last.rows
            ids |= last.ids
        check(len(found), len(ids), last.total)
        return found

    def page(self, convert: Callable[[Row], t.Any], token: str = "", skip: int = 0) -> Page:
        """Return one complete page."""
        answer = self._answer(token, skip)
        if answer.get("error"):
            raise _InconsistentError("Resource Graph's answer has an error beside its rows")
        data = answer.get("data")
        if not isinstance(data, list):
            raise _InconsistentError("Resource Graph's answer has no list 'data'")
        if not all(isinstance(row, dict) and row.get("id") for row in data):
            raise _InconsistentError("Resource Graph gave a row that is none, or one without an id")
        ids = {f"{row['id']}/{row.get('nicId') or ''}".lower() for row in data}
        following, total = str(answer.get("$skipToken") or ""), answer.get("totalRecords")
        if not following and str(answer.get("resultTruncated")).lower() == "true":
            raise _InconsistentError("Resource Graph cut its answer short")
        return Page([convert(row) for row in data], ids, following, total if isinstance(total, int) else -1)

    def _answer(self, token: str, skip: int) -> dict[str, t.Any]:
        while True:
            options: dict[str, t.Any] = {"resultFormat": "objectArray", "$top": self.size}
            if token:
                options["$skipToken"] = token
            if skip:
                options["$skip"] = skip
            try:
                return self._client.post(PATH, self._query, {**self._body, "options": options})
            except RequestError as exc:
                if exc.code != "ResponsePayloadTooLarge" or self.size <= 1 or skip:
                    raise
                self.size = max(1, self.size // 2)


def check(count: int, distinct: int, total: int) -> None:
    """Refuse missing or duplicate rows."""
    if total not in (-1, count):
        raise _InconsistentError(f"Resource Graph announced {total} rows and gave {count}")
    if distinct != count:
        raise _InconsistentError("Resource Graph gave a row twice")


def together(begun: Begun, pages: Iterable[Page]) -> list[t.Any] | None:
    """Return the rows of all pages, or None if they are inconsistent and must be read one after another."""
    parts = [begun.first, *pages]
    found = [row for part in parts for row in part.rows]
    try:
        check(len(found), len(set().union(*(part.ids for part in parts))), begun.first.total)
    except _InconsistentError:
        return None
    return found


def _literals(values: Iterable[str]) -> str:
    return ", ".join(literal(str(value)) for value in values)
