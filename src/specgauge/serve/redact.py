"""Strikes secrets out of what is recorded: environments and command lines.  Stdlib only."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE", re.IGNORECASE)
_SECRET_FLAG = re.compile(r"^--(?:[\w-]*-)?(?:api-key|token|password|secret)$")
_URL_USER = re.compile(r"(?<=://)[^/@\s]+@")


def strike_out(env: dict[str, str]) -> dict[str, str]:
    """The variables without secrets: values of telling names and ``user:password@`` in URLs."""
    return {
        name: "***" if _SECRET_NAME.search(name) else _URL_USER.sub("***@", value)
        for name, value in sorted(env.items())
    }


def strike_out_argv(argv: list[str]) -> list[str]:
    """A command line without secrets: the value after ``--api-key`` and its kind."""
    clean: list[str] = []
    for word in argv:
        flag, equals, _ = word.partition("=")
        if clean and _SECRET_FLAG.match(clean[-1]):
            clean.append("***")
        elif equals and _SECRET_FLAG.match(flag):
            clean.append(f"{flag}=***")
        else:
            clean.append(_URL_USER.sub("***@", word))
    return clean
