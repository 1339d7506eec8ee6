"""The part of Resource Graph's language that the inventory uses; everything else is refused as Azure would."""

from __future__ import annotations

import re
import typing as t

Row = dict[str, t.Any]

COLUMNS = frozenset(
    {"id", "name", "type", "tenantId", "kind", "location", "resourceGroup", "subscriptionId", "managedBy"}
)
COLUMNS |= {"managedBy", "sku", "plan", "properties", "tags", "identity", "zones", "extendedLocation"}
_TOKEN = re.compile(r"\s*('(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|=~|==|!=|in~|[(),.\[\]=])")
_FUNCTIONS = {
    "tostring": lambda value: "" if value is None else str(value),
    "tolower": lambda value: str(value or "").lower(),
    "isnotnull": lambda value: value is not None,
    "isnotempty": lambda value: value not in (None, ""),
}


class InvalidQueryError(Exception):
    """Azure would answer 400 InvalidQuery."""


def run(text: str, tables: dict[str, list[Row]]) -> list[Row]:
    """Return the rows of a query."""
    source, *steps = _pipes(text)
    if source.lower() not in tables:
        raise InvalidQueryError(f"unknown table {source}")
    rows: list[Row] = tables[source.lower()]
    known = set(COLUMNS)
    for step in steps:
        word, _blank, rest = step.partition(" ")
        if word == "where":
            parsed = _Parser(rest, known).condition()
            rows = [row for row in rows if parsed(row)]
        elif word == "project":
            columns = [_column(part, known) for part in _commas(rest)]
            rows = [{name: value(row) for name, value in columns} for row in rows]
            known = {name for name, _value in columns}
        elif word == "join":
            rows = _join(rest, rows, tables)
            known.add("vmId1")
        elif word == "project-away":
            known -= {name.strip() for name in rest.split(",")}
            rows = [{name: value for name, value in row.items() if name in known} for row in rows]
        elif step == "order by id asc":
            rows = sorted(rows, key=lambda row: str(row["id"]))
        else:
            raise InvalidQueryError(f"unknown operator {step!r}")
    return rows


def _join(rest: str, rows: list[Row], tables: dict[str, list[Row]]) -> list[Row]:
    match = re.fullmatch(r"kind=inner \((.*)\) on (\w+)", rest, re.DOTALL)
    if not match:
        raise InvalidQueryError(f"unknown join {rest!r}")
    key = match[2]
    other = {row[key]: row for row in run(match[1], tables)}
    return [{**row, f"{key}1": other[row[key]][key]} for row in rows if row[key] in other]


def _column(part: str, known: set[str]) -> tuple[str, t.Any]:
    name, equal, expression = part.partition("=")
    parser = _Parser(expression if equal else name, known)
    value = parser.value()
    parser.end()
    return name.strip(), value


def _pipes(text: str) -> list[str]:
    return [part.strip() for part in _split(text, "|")]


def _commas(text: str) -> list[str]:
    return [part.strip() for part in _split(text, ",")]


def _split(text: str, mark: str) -> list[str]:
    """Split outside of brackets and texts."""
    parts, depth, start, quoted = [], 0, 0, False
    position = 0
    while position < len(text):
        char = text[position]
        if quoted:
            position += char == "\\"
            quoted = char != "'"
        elif char == "'":
            quoted = True
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == mark and depth == 0:
            parts.append(text[start:position])
            start = position + 1
        position += 1
    return [*parts, text[start:]]


class _Parser:
    """A condition or a value."""

    def __init__(self, text: str, known: set[str]) -> None:
        self._known = known
        self._tokens: list[str] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if not match:
                raise InvalidQueryError(f"cannot read {text[position:]!r}")
            token = match[1]
            position = match.end()
            if token == "in" and text[position : position + 1] == "~":
                token, position = "in~", position + 1
            self._tokens.append(token)

    def end(self) -> None:
        if self._tokens:
            raise InvalidQueryError(f"unexpected {self._tokens[0]!r}")

    def condition(self) -> t.Any:
        wrapped = bool(self._tokens) and self._tokens[0] == "("
        if wrapped:
            self._take("(")
        left = self.value()
        test = left
        if self._tokens and self._tokens[0] in ("=~", "==", "!=", "in~", "in"):
            test = self._comparison(left, self._tokens.pop(0))
        if wrapped:
            self._take(")")
        self.end()
        return test

    def _comparison(self, left: t.Any, operator: str) -> t.Any:
        if operator in ("in", "in~"):
            self._take("(")
            items = [self._text()]
            while self._tokens[0] == ",":
                self._take(",")
                items.append(self._text())
            self._take(")")
            if operator == "in":
                return lambda row: left(row) in items
            lowered = {item.lower() for item in items}
            return lambda row: str(left(row)).lower() in lowered
        right = self._text()
        if operator == "=~":
            return lambda row: str(left(row)).lower() == right.lower()
        return lambda row: (left(row) == right) is (operator == "==")

    def value(self) -> t.Any:
        name = self._tokens.pop(0)
        if self._tokens and self._tokens[0] == "(" and name in _FUNCTIONS:
            self._take("(")
            inner = self.value()
            self._take(")")
            function = _FUNCTIONS[name]
            return lambda row: function(inner(row))
        if name not in self._known:
            raise InvalidQueryError(f"no column {name!r}")
        return self._path(name)

    def _path(self, name: str) -> t.Any:
        steps = [name]
        while self._tokens and self._tokens[0] in (".", "["):
            if self._tokens.pop(0) == ".":
                steps.append(self._tokens.pop(0))
            else:
                steps.append(self._text())
                self._take("]")

        def walk(row: t.Any) -> t.Any:
            for step in steps:
                row = row.get(step) if isinstance(row, dict) else None
            return row

        return walk

    def _text(self) -> str:
        token = self._tokens.pop(0)
        if not token.startswith("'"):
            raise InvalidQueryError(f"a text is needed, found {token!r}")
        return re.sub(r"\\(.)", r"\1", token[1:-1])

    def _take(self, wanted: str) -> None:
        if not self._tokens or self._tokens.pop(0) != wanted:
            raise InvalidQueryError(f"{wanted!r} is missing")
