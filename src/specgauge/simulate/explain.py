"""Faults of a planted truth, one line each, with the key and the nearest valid name."""

from __future__ import annotations

import difflib
import typing

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, where: str, root: type[BaseModel]) -> list[str]:
    """One line per fault of ``error``; ``where`` names the document."""
    known = _names(root)
    lines: dict[str, None] = {}
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"]) or "(document)"
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            close = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.5)
            message = "unknown key" + (f"; did you mean {close[0]!r}?" if close else "")
        lines[f"{where}: {key}: {message}"] = None
    return list(lines)


def _names(root: type[BaseModel]) -> list[str]:
    """Every key of the model and of the models inside it."""
    names: dict[str, None] = {}
    seen: set[type[BaseModel]] = set()
    todo = [root]
    while todo:
        model = todo.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            names[name] = None
            todo.extend(_models(field.annotation))
    return list(names)


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for inner in typing.get_args(annotation) for m in _models(inner)]
