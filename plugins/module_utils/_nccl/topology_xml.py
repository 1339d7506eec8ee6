# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Read and write the XML of NCCL, by the rules of NCCL and not those of XML.

NCCL has its own small parser. It refuses much that XML allows (a prolog, a tab between tags, a line break between
attributes). It accepts some of what XML forbids (an attribute without a name, C(--) in a comment). The rules in this
file were observed with a real NCCL 2.28.9 or read in its sources. Tests compare them with the recorded results.
"""

from __future__ import annotations

import typing as t

# NCCL's buffers also contain the character that ends a value or a name.
MAX_LENGTH = 253
MAX_ATTRIBUTES = 16
# 32 up to NCCL 2.20, 128 up to 2.29.3, 640 since.
MAX_CHILDREN = 128
# Limit of the whole file, since NCCL 2.21. The 256th place is for the element that NCCL is reading.
MAX_ELEMENTS = 255

_BLANK = " \n\r"
_NAME_ENDS = " =>/\n\r"
# The elements that NCCL reads in each element. It skips all others, up to any closing tag.
_READ_IN = {
    "": ("system",),
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "pcilink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
}


class Element:
    """One element, its attributes in the order of the file, its first line, and whether NCCL reads it."""

    def __init__(self, name: str, attributes: list[tuple[str, str]] | None = None, line: int = 0) -> None:
        """Create an element without children."""
        self.name = name
        self.attributes = attributes or []
        self.line = line
        self.read = True
        self.children: list[Element] = []

    def get(self, name: str) -> str | None:
        """Return the value of an attribute. NCCL uses the first one of that name."""
        return next((value for key, value in self.attributes if key == name), None)

    def add(self, child: Element) -> Element:
        """Append a child and return it."""
        self.children.append(child)
        return child

    def walk(self) -> t.Iterator[Element]:
        """Yield this element and all descendants that NCCL reads, in the order of the file."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(child for child in reversed(element.children) if child.read)


class NcclXmlError(ValueError):
    """NCCL would refuse the file or crash on it. The message contains the line and the reason."""

    def __init__(self, line: int, text: str, crash: bool = False) -> None:
        """Store the line and whether NCCL would crash."""
        super().__init__(f"line {line}: {text}")
        self.crash = crash


def parse(text: str) -> Element:
    """Return an unnamed element whose children are the top-level elements. Raise NcclXmlError for a faulty file."""
    return _Parser(text).document()


def serialize(root: Element) -> str:
    """Return an element as a string: two spaces per level, one between attributes, none before a slash, no prolog."""
    lines: list[str] = []
    stack: list[tuple[Element | str, int]] = [(root, 0)]
    while stack:
        item, depth = stack.pop()
        indent = "  " * depth
        if isinstance(item, str):
            lines.append(f"{indent}</{item}>")
            continue
        head = indent + "<" + item.name + "".join(f' {key}="{_value(key, value)}"' for key, value in item.attributes)
        lines.append(head + (">" if item.children else "/>"))
        if item.children:
            stack.append((item.name, depth))
            stack.extend((child, depth + 1) for child in reversed(item.children))
    return "\n".join(lines) + "\n"


def _value(key: str, value: str) -> str:
    if len(value) > MAX_LENGTH or any(char in value for char in "\"'<>&\t\n\r"):
        raise ValueError(f"attribute {key} cannot have the value {value!r}: NCCL decodes no entities")
    return value


class _Parser:
    """A parser that fails wherever NCCL fails."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._count = 0
        self._open = [Element("")]

    def document(self) -> Element:
        while self._skip_blanks():
            self._take("<", "expecting '<', got {}")
            if self._text.startswith("!--", self._at):
                self._comment()
            elif self._text.startswith("/", self._at):
                self._close()
            else:
                self._element()
        if len(self._open) > 1:
            raise self._error(f"unterminated <{self._open[-1].name}>, the file ends without its closing tag")
        return self._open[0]

    def _skip_blanks(self) -> bool:
        while self._at < len(self._text) and self._text[self._at] in _BLANK:
            self._at += 1
        return self._at < len(self._text)

    def _error(self, text: str, crash: bool = False) -> NcclXmlError:
        return NcclXmlError(self._text.count("\n", 0, self._at) + 1, text, crash)

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._error("the file ends inside a tag")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, wanted: str, message: str) -> None:
        got = self._next()
        if got != wanted:
            self._at -= 1
            raise self._error(message.format(repr(got)))

    def _token(self) -> tuple[str, str]:
        """Return a name and the character that ends it."""
        start = self._at
        while True:
            char = self._next()
            if char in _NAME_ENDS:
                name = self._text[start : self._at - 1]
                break
        most = MAX_LENGTH + (char == "=")
        if len(name) > most:
            raise self._error(f"a name of {len(name)} characters, NCCL takes {most}")
        return name, char

    def _comment(self) -> None:
        start = self._at
        word, end = self._token()
        if end == "=":
            raise self._error(f"the comment starts with {word!r} and '=': write a blank after '<!--'")
        close = self._text.find("-->", start + 3)
        if close < 0:
            raise self._error("a comment without its end")
        self._at = close + 3

    def _close(self) -> None:
        self._at += 1
        name, end = self._token()
        if end != ">":
            raise self._error(f"expected > after </{name}, got {end!r}")
        if len(self._open) == 1 or (self._open[-1].read and self._open[-1].name != name):
            wanted = f"</{self._open[-1].name}>" if len(self._open) > 1 else "no closing tag"
            raise self._error(f"found </{name}> where {wanted} belongs")
        self._open.pop()

    def _element(self) -> None:
        line = self._text.count("\n", 0, self._at) + 1
        name, end = self._token()
        element = Element(name, line=line)
        while end == " ":
            end = self._attribute(element)
        closed = end == "/"
        if closed:
            _rest, end = self._token()
        if end != ">":
            raise self._error(f"expected > at the end of <{name}>, got {end!r}")
        self._append(element)
        if not closed:
            self._open.append(element)

    def _append(self, element: Element) -> None:
        parent = self._open[-1]
        element.read = parent.read and element.name in _READ_IN.get(parent.name, ())
        if element.read:
            self._count += 1
            if len(self._open) > 1 and sum(child.read for child in parent.children) >= MAX_CHILDREN:
                raise self._error(
                    f"<{parent.name}> has more than {MAX_CHILDREN} elements, the limit of NCCL 2.21 to 2.29"
                )
            if self._count > MAX_ELEMENTS:
                raise self._error(f"more than {MAX_ELEMENTS} elements, the limit of NCCL")
        parent.children.append(element)

    def _attribute(self, element: Element) -> str:
        name, end = self._token()
        value = ""
        if end == "=":
            value = self._quoted(name)
            end = self._next()
        element.attributes.append((name, value))
        if len(element.attributes) > MAX_ATTRIBUTES:
            raise self._error(f"<{element.name}> has more than {MAX_ATTRIBUTES} attributes: NCCL crashes", crash=True)
        return end

    def _quoted(self, name: str) -> str:
        quote = self._next()
        if quote not in "\"'":
            raise self._error(f"expected a quote after {name}=, got {quote!r}")
        end = self._text.find(quote, self._at)
        if end < 0:
            raise self._error(f"the value of {name} has no closing quote")
        value = self._text[self._at : end]
        if len(value) > MAX_LENGTH:
            raise self._error(f"the value of {name} has {len(value)} characters, NCCL takes {MAX_LENGTH}")
        self._at = end + 1
        return value
