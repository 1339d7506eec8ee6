"""The part of Resource Graph's language that the inventory uses; everything else is refused as Azure would."""

from __future__ import annotations

import json
import re
import typing as t

Row = dict[str, t.Any]

COLUMNS = frozenset(
    {"id", "name", "type", "tenantId", "kind", "location", "resourceGroup", "subscriptionId", "managedBy"}
)
COLUMNS |= {"managedBy", "sku", "plan", "properties", "tags", "identity", "zones", "extendedLocation"}
_TOKEN = re.compile(r"\s*('(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|\d+|=~|==|!=|in~|[(),.\[\]=])")


def _text_of(value: t.Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


_FUNCTIONS = {
    "tostring": _text_of,
    "parse_json": lambda text: json.loads(text) if text else None,
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
        if word == "join":
            rows, added = _join(rest, rows, tables)
            known |= added
        elif word in _STEPS:
            rows, known = _STEPS[word](rest, rows, known)
        else:
            raise InvalidQueryError(f"unknown operator {step!r}")
    return rows


def _where(rest: str, rows: list[Row], known: set[str]) -> tuple[list[Row], set[str]]:
    parsed = _Parser(rest, known).condition()
    return [row for row in rows if parsed(row)], known


def _project(rest: str, rows: list[Row], known: set[str]) -> tuple[list[Row], set[str]]:
    columns = [_column(part, known) for part in _commas(rest)]
    return [{name: value(row) for name, value in columns} for row in rows], {name for name, _value in columns}


def _project_away(rest: str, rows: list[Row], known: set[str]) -> tuple[list[Row], set[str]]:
    kept = known - {name.strip() for name in rest.split(",")}
    return [{name: value for name, value in row.items() if name in kept} for row in rows], kept


def _order(rest: str, rows: list[Row], known: set[str]) -> tuple[list[Row], set[str]]:
    if rest not in ("by id asc", "by id asc, nicId asc"):
        raise InvalidQueryError(f"unknown order {rest!r}")
    return sorted(rows, key=lambda row: (str(row["id"]), str(row.get("nicId")))), known


def _join(rest: str, rows: list[Row], tables: dict[str, list[Row]]) -> tuple[list[Row], set[str]]:
    """Return a row for each pair; the key comes a second time with a 1, and what is not there is null."""
    match = re.fullmatch(r"kind=(inner|leftouter) \((.*)\) on (\w+)", rest, re.DOTALL)
    if not match:
        raise InvalidQueryError(f"unknown join {rest!r}")
    key = match[3]
    others: dict[str, list[Row]] = {}
    columns: set[str] = set()
    for row in run(match[2], tables):
        columns |= set(row)
        others.setdefault(row[key], []).append(row)
    columns.add(key)
    renamed = {name: f"{name}1" if name == key or (rows and name in rows[0]) else name for name in columns}
    nothing = dict.fromkeys(renamed.values())
    found = []
    for row in rows:
        if not isinstance(row[key], str):
            raise InvalidQueryError("the key of a join must be a text")
        partners = others.get(row[key], [])
        found += [{**row, **{renamed[name]: value for name, value in other.items()}} for other in partners]
        if not partners and match[1] == "leftouter":
            found.append({**row, **nothing})
    return found, set(renamed.values())


_STEPS = {
    "where": _where,
    "project": _project,
    "project-away": _project_away,
    "order": _order,
}


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
        if self._tokens and self._tokens[0] == "(" and name == "split":
            return self._split()
        if self._tokens and self._tokens[0] == "(" and name in _FUNCTIONS:
            self._take("(")
            inner = self.value()
            self._take(")")
            function = _FUNCTIONS[name]
            return self._steps(lambda row: function(inner(row)))
        if name not in self._known:
            raise InvalidQueryError(f"no column {name!r}")
        return self._path(name)

    def _split(self) -> t.Any:
        """Read C(split(value, 'mark')[0]); only with a place, since a list is no text."""
        self._take("(")
        inner = self.value()
        self._take(",")
        mark = self._text()
        self._take(")")
        self._take("[")
        place = int(self._tokens.pop(0))
        self._take("]")
        return lambda row: inner(row).split(mark)[place]

    def _path(self, name: str) -> t.Any:
        return self._steps(lambda row: row.get(name))

    def _steps(self, start: t.Any) -> t.Any:
        steps: list[str] = []
        while self._tokens and self._tokens[0] in (".", "["):
            if self._tokens.pop(0) == ".":
                steps.append(self._tokens.pop(0))
            else:
                steps.append(self._text())
                self._take("]")

        def walk(row: t.Any) -> t.Any:
            row = start(row)
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
