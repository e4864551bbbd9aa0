"""Strikes secrets out of what is recorded: environments, command lines, log lines.  Stdlib only."""

from __future__ import annotations

import json
import re
from typing import Any

_SECRET_NAME = re.compile(
    r"TOKEN(?!IZER)|SECRET|PASSW|CREDENTIAL|API_?KEY|_KEY$|PRIVATE|AUTH(?!OR(?!I))", re.IGNORECASE
)
_SECRET_ARG = re.compile(r"(?:[\w-]*-)?(?:api-key|access-key|token|password|secret)")
"""Narrower than a variable's: many of vLLM's arguments count tokens."""
_URL_USER = re.compile(r"(?<=://)[^/\s]*@")
STRUCK = "***"
_SHORTEST = 6
"""A shorter secret would be struck out of words that have nothing to do with it."""


def strike_out(env: dict[str, str]) -> dict[str, str]:
    """The variables without secrets: values of telling names and ``user:password@`` in URLs."""
    return {
        name: STRUCK if _SECRET_NAME.search(name) else _strike_out_text(value)
        for name, value in sorted(env.items())
    }


def strike_out_argv(argv: list[str]) -> list[str]:
    """A command line without secrets: the values after ``--api-key`` and its kind.

    Also those inside JSON, and in ``NAME=value`` of a program such as ``env``.
    """
    clean: list[str] = []
    secret = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if word.startswith("--"):
            is_secret = _is_secret_arg(name[2:])
            secret = is_secret and not equals
            clean.append(f"{name}={STRUCK}" if is_secret and equals else _strike_out_text(word))
        elif secret:
            clean.append(STRUCK)
        elif equals and name.isidentifier() and _SECRET_NAME.search(name):
            clean.append(f"{name}={STRUCK}")
        else:
            clean.append(_strike_out_text(word))
    return clean


def strike_out_args(value: Any) -> Any:
    """Arguments as data (``server_args``, at any depth) without the values of secret ones."""
    if isinstance(value, dict):
        return {
            name: STRUCK
            if _is_secret_arg(str(name)) and item is not None
            else strike_out_args(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [strike_out_args(item) for item in value]
    return _strike_out_text(value) if isinstance(value, str) else value


def secret_values(env: dict[str, str], argv: list[str]) -> list[bytes]:
    """Every secret that the variables and the command line hold, longest first."""
    found = {value for name, value in env.items() if _SECRET_NAME.search(name)}
    for before, after in zip(argv, strike_out_argv(argv), strict=True):
        if after.endswith(STRUCK) and before != after:
            found.add(before.partition("=")[2] if "=" in after else before)
    for text in (*env.values(), *argv):
        found.update(user[:-1] for user in _URL_USER.findall(text))
    long_enough = (value.encode() for value in found if len(value) >= _SHORTEST)
    return sorted(long_enough, key=len, reverse=True)


def _is_secret_arg(name: str) -> bool:
    return _SECRET_ARG.fullmatch(name.lower().replace("_", "-")) is not None


def _strike_out_text(text: str) -> str:
    if text.startswith(("{", "[")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            clean = strike_out_args(value)
            if clean != value:
                return json.dumps(clean)
    return _URL_USER.sub(f"{STRUCK}@", text)
