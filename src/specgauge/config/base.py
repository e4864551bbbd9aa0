"""YAML files into pydantic models, with errors that name file, line, key and nearest valid name."""

from __future__ import annotations

import difflib
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specgauge.config.names import name_fault
from specgauge.config.yaml_text import Location, parse
from specgauge.errors import UsageError


class StrictModel(BaseModel):
    """Base of every configuration model: unknown keys and other types are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


M = TypeVar("M", bound=StrictModel)


def read_yaml(path: Path) -> tuple[Any, dict[Location, int]]:
    """Parse ``path``.  Returns its value and the 1-based line of each key and list item.

    Raises:
        UsageError: no such file, unreadable, or not plain YAML (with the line).
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return parse(text, path)


def load(model: type[M], path: Path, **defaults: Any) -> M:
    """Read ``path`` as a ``model``; ``defaults`` fill keys that the file does not give.

    Raises:
        UsageError: with one line for each fault, each naming file, line and key.
    """
    value, lines = read_yaml(path)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected keys and values, found a {type(value).__name__}")
    try:
        return model.model_validate({**defaults, **value})
    except ValidationError as error:
        raise UsageError("\n".join(_explain(error, model, path, lines))) from error


def _explain(
    error: ValidationError, model: type[BaseModel], path: Path, lines: dict[Location, int]
) -> list[str]:
    faults: dict[str, None] = {}
    for fault in error.errors():
        location = _without_tags(fault["loc"], lines)
        line = next(
            (lines[location[:n]] for n in range(len(location), -1, -1) if location[:n] in lines), 1
        )
        key = ".".join(str(part) for part in location) or "(file)"
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "unknown key" + _nearest(str(location[-1]), _names_at(model, location[:-1]))
        elif fault["type"] == "literal_error":
            told = _nearest_of_all(str(fault["input"]), _values_at(model, location))
            message = f"unknown value {fault['input']!r}{told}"
        elif fault["type"] == "missing":
            message = "this key is required"
        elif fault["type"].endswith(("_type", "_parsing")):
            message = f"{message}, found {fault['input']!r}"
        faults[f"{path}:{line}: {key}: {message}"] = None
    return list(faults)


def _without_tags(location: Location, lines: dict[Location, int]) -> Location:
    """Drop the parts that pydantic adds for the member of a union: they are in no file."""
    kept: Location = ()
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if (*kept, part) in lines or (last and not str(part)[:1].isupper()):
            kept = (*kept, part)
    return kept


def _names_at(model: type[BaseModel], location: Location) -> list[str]:
    """Valid keys of the model that sits at ``location`` inside ``model``."""
    return [name for m in _models_in(_annotations_at(model, location)) for name in m.model_fields]


def _values_at(model: type[BaseModel], location: Location) -> list[str]:
    """Valid values of the key at ``location`` inside ``model``: those of its ``Literal``."""
    parts = [part for a in _annotations_at(model, location) for part in _parts(a)]
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return [str(value) for literal in literals for value in typing.get_args(literal)]


def _annotations_at(model: type[BaseModel], location: Location) -> list[Any]:
    """The types that ``model`` allows at ``location``."""
    current: list[Any] = [model]
    for key in location:
        if not isinstance(key, int):
            fields = [m.model_fields for m in _models_in(current)]
            current = [found[key].annotation for found in fields if key in found]
    return current


def _models_in(annotations: list[Any]) -> list[type[BaseModel]]:
    parts = [part for annotation in annotations for part in _parts(annotation)]
    return [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]


def _parts(annotation: Any) -> list[Any]:
    """``annotation`` and all that it is made of."""
    if typing.get_origin(annotation) is typing.Literal:
        return [annotation]
    return [annotation, *(x for a in typing.get_args(annotation) for x in _parts(a))]


def _nearest(name: str, valid: list[str]) -> str:
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; valid here: {', '.join(sorted(valid))}" if valid else ""


def _nearest_of_all(name: str, valid: list[str]) -> str:
    """As ``_nearest``, all of ``valid`` in any case: they are few."""
    near = _nearest(name, valid)
    return near + (f" ({', '.join(valid)})" if "did you mean" in near else "")


def find_named(folder: Path, kind: str, name: str) -> Path:
    """The file of the ``kind`` (variant, model, …) called ``name`` in ``folder``.

    Raises:
        UsageError: none is called so; the nearest name and all names are in the message.
    """
    if (fault := name_fault(name)) is not None:
        raise UsageError(f"no {kind} can be called so: {fault}")
    path = folder / f"{name}.yaml"
    if path.is_file():
        return path
    names = sorted(p.stem for p in folder.glob("*.yaml"))
    near = _nearest_of_all(name, names)
    raise UsageError(f"no {kind} is called {name!r} in {folder}{near}")
