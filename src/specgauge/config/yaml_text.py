"""YAML text into plain values: text, numbers, true/false, null, lists, and mappings by text.

What YAML has beyond that (dates, sets, binary, keys that are lists, values that contain
themselves) is refused here, with its line: none of it can be passed to a server or recorded.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml

from specgauge.errors import UsageError

Location = tuple[str | int, ...]

_MOST_DEEP = 50
_TOO_DEEP = f"nested too deeply (more than {_MOST_DEEP} levels)"
_MOST_NODES = 100_000
"""Aliases written out: a few lines can stand for more than memory holds."""
_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


class _Refused(Exception):
    """A fault and the line where it is."""

    def __init__(self, line: int, fault: str) -> None:
        super().__init__(fault)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Stops at a deep nesting while it scans: beyond some thousand levels that alone takes long."""

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 (its base's name)
        if self.flow_level > _MOST_DEEP:
            raise _Refused(self.line + 1, _TOO_DEEP)
        super().fetch_flow_collection_start(TokenClass)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        self._newest = node.start_mark.line + 1
        return super().construct_scalar(node)

    def construct(self, root: yaml.Node) -> Any:
        """The value of ``root``, faults of PyYAML's constructors told with their line."""
        self._newest = 1
        try:
            return self.construct_document(root)
        # A 13th month, a number of 5000 digits, `!!bool maybe`, `!!int ""`.
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise _Refused(self._newest, f"a value cannot be read: {error}") from None


def parse(text: str, path: Path) -> tuple[Any, dict[Location, int]]:
    """The value of ``text`` and the 1-based line of each key and list item.

    Raises:
        UsageError: not YAML, or more than plain values; names ``path`` and line.
    """
    try:
        return _parse(text)
    except _Refused as refused:
        raise UsageError(f"{path}:{refused.line}: {refused}") from None
    except RecursionError:
        raise UsageError(f"{path}: {_TOO_DEEP}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {error}") from error


def _parse(text: str) -> tuple[Any, dict[Location, int]]:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _check_nodes(node)
        lines: dict[Location, int] = {}
        _collect_lines(node, (), lines)
        value = loader.construct(node)  # writes merged keys out, so it comes last
    finally:
        loader.dispose()
    _check_values(value, (), lines)
    return value, lines


def _check_nodes(root: yaml.Node) -> None:
    sizes: dict[int, int] = {}
    around: set[int] = set()

    def size(node: yaml.Node, depth: int) -> int:
        line = node.start_mark.line + 1
        if id(node) in around:
            raise _Refused(line, "an alias stands for what contains it")
        if depth > _MOST_DEEP:
            raise _Refused(line, _TOO_DEEP)
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        around.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            children = [value for _, value in node.value]
        else:
            children = node.value
        total = 1 + sum(size(child, depth + 1) for child in children)
        if total > _MOST_NODES:
            raise _Refused(line, f"more than {_MOST_NODES} values, aliases written out")
        around.discard(id(node))
        sizes[id(node)] = total
        return total

    size(root, 0)


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise _Refused(line, "a key must be text, not a list or a mapping")
        if key.tag not in (_TEXT, _MERGE):  # YAML reads `on`, `no`, `5` and `~` as no text
            raise _Refused(line, f"the key {key.value} must be text: put it in quotes")
        if (key.tag, key.value) in seen:
            raise _Refused(line, f"not valid YAML: the key {key.value!r} is written twice")
        seen.add((key.tag, key.value))


def _collect_lines(node: yaml.Node, at: Location, lines: dict[Location, int]) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.tag == _MERGE:
                merged = child.value if isinstance(child, yaml.SequenceNode) else [child]
                for one in merged:
                    _collect_lines(one, at, lines)
                continue
            here = (*at, key.value)
            lines[here] = key.start_mark.line + 1
            _collect_lines(child, here, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            _collect_lines(child, (*at, index), lines)


def _check_values(value: Any, at: Location, lines: dict[Location, int]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, at, lines)
            _check_values(item, (*at, key), lines)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_values(item, (*at, index), lines)
    elif isinstance(value, str):
        _check_text(value, at, lines)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refused(at, lines, "must be a finite number")
    elif not isinstance(value, bool | int | float | None):
        raise _refused(
            at, lines, f"a {_kind(value)} cannot be used here; if it is meant as text, quote it"
        )


def _kind(value: object) -> str:
    names = {"bytes": "binary value", "datetime": "date"}
    return names.get(type(value).__name__, type(value).__name__)


def _check_text(text: str, at: Location, lines: dict[Location, int]) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused(at, lines, "holds half of a surrogate pair, which is no text") from None
    if "\0" in text:
        raise _refused(at, lines, "holds a NUL character")


def _refused(at: Location, lines: dict[Location, int], fault: str) -> _Refused:
    line = next((lines[at[:n]] for n in range(len(at), -1, -1) if at[:n] in lines), 1)
    return _Refused(line, f"{'.'.join(map(str, at)) or '(file)'}: {fault}")
