"""Parse SVG and HTML into one simple tree; nothing in the text is fetched, expanded or run."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

_VOID: Final = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_MAX_NODES: Final = 5000
_MAX_DEPTH: Final = 200
_SPACE: Final = re.compile(r"\s+")
_NUMBER: Final = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?", re.I)


@dataclass
class Node:
    """An element: lower-case name, attributes, text directly in it, children."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[Node] = field(default_factory=list)


class _Builder(HTMLParser):
    """Builds a tree. The standard library's HTML parser knows no entities to expand and no external files."""

    def __init__(self, xml: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("#root")
        self.stack = [self.root]
        self.xml = xml
        self.nodes = 0
        self.balanced = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = self._add(tag, attrs)
        if node is not None and (self.xml or tag not in _VOID) and len(self.stack) < _MAX_DEPTH:
            self.stack.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = self._add(tag, attrs)
        if node is not None and not self.xml and tag not in _VOID and len(self.stack) < _MAX_DEPTH:
            self.stack.append(node)

    def handle_endtag(self, tag: str) -> None:
        names = [node.name for node in self.stack]
        if tag not in names[1:]:
            self.balanced = self.balanced and tag in _VOID
            return
        position = len(names) - 1 - names[::-1].index(tag)
        if position != len(names) - 1:
            self.balanced = False
        del self.stack[position:]

    def handle_data(self, data: str) -> None:
        if text := _SPACE.sub(" ", data).strip():
            node = self.stack[-1]
            node.text = f"{node.text} {text}".strip()

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Node | None:
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            return None
        node = Node(tag, {name: normal(name, value or "") for name, value in attrs if not name.startswith("xmlns")})
        self.stack[-1].children.append(node)
        return node


def parse_markup(text: str, *, xml: bool) -> Node | None:
    """The tree of a document; for XML (SVG) None unless every element is closed."""
    builder = _Builder(xml)
    try:
        builder.feed(text)
        builder.close()
    except (ValueError, AssertionError, RecursionError):
        return None
    if xml and (not builder.balanced or len(builder.stack) > 1):
        return None
    return builder.root if builder.root.children else None


def normal(name: str, value: str) -> str:
    """An attribute's value in one spelling: blanks, colour case, number forms, order of classes and style rules."""
    value = _SPACE.sub(
        " ", value.strip().replace(",", " ") if name in ("points", "d", "viewbox", "transform") else value.strip()
    )
    if name == "class":
        return " ".join(sorted(value.split()))
    if name == "style":
        rules = [rule.partition(":") for rule in value.split(";") if rule.strip()]
        return ";".join(sorted(f"{key.strip().lower()}:{item.strip().lower()}" for key, _, item in rules))
    if name in ("id", "href", "src", "alt", "title", "name", "value", "placeholder", "content"):
        return value
    return _NUMBER.sub(lambda match: f"{float(match[0]):g}", value.lower())


def flatten(node: Node, depth: int = 0) -> list[tuple[int, Node]]:
    """All elements below ``node`` with their depth, in document order."""
    found: list[tuple[int, Node]] = []
    stack = [(depth, child) for child in reversed(node.children)]
    while stack:
        level, item = stack.pop()
        found.append((level, item))
        stack += [(level + 1, child) for child in reversed(item.children)]
    return found
