"""Can a build of torch run on a GPU?  CUDA's rules of binary compatibility.  Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

Kernels = Literal["exact", "family", "ptx", "none"]


def kernels_for(capability: tuple[int, int], arch_list: Sequence[str]) -> tuple[Kernels, str]:
    """Whether kernels of ``arch_list`` run on a GPU of ``capability``, and by which entry.

    ``exact``: built for it.  ``family``: built for an earlier minor version of the same major one,
    which runs there (CUDA C++ Programming Guide, binary compatibility; not for entries such as
    ``sm_90a``, which run on exactly that GPU).  ``ptx``: only an intermediate form, compiled by the
    driver at first use.  ``none``: every launch ends with "no kernel image is available".
    """
    major, minor = capability
    family: tuple[int, str] | None = None
    ptx: tuple[int, str] | None = None
    for entry in arch_list:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([a-z]?)", entry)
        if match is None:
            continue
        kind, at_major, at_minor, special = match[1], int(match[2]), int(match[3]), match[4]
        if kind == "sm" and (at_major, at_minor) == capability:
            return "exact", entry
        if special:
            continue
        if kind == "sm" and at_major == major and at_minor <= minor:
            family = max(family or (-1, ""), (at_minor, entry))
        if kind == "compute" and (at_major, at_minor) <= capability:
            ptx = max(ptx or (-1, ""), (10 * at_major + at_minor, entry))
    if family is not None:
        return "family", family[1]
    if ptx is not None:
        return "ptx", ptx[1]
    return "none", ""
