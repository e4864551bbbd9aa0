"""`@fuse`: compile a function for GPU tensors, leave it eager for CPU tensors.

On a CPU (tests, toy runs) compiling costs more than it saves. ``EAGLE3_EAGER=1`` turns compiling
off on a GPU too, for debugging.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch
import torch._dynamo

if TYPE_CHECKING:
    from collections.abc import Callable

# Heads of several shapes may be trained in one process (`variations.py`).
torch._dynamo.config.recompile_limit = 64

P = ParamSpec("P")
R = TypeVar("R")


def fuse(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, compiled for static shapes when its first argument is on a GPU."""
    compiled = torch.compile(function, dynamic=False)

    @functools.wraps(function)
    def dispatch(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0]
        on_gpu = isinstance(first, torch.Tensor) and first.is_cuda
        chosen = compiled if on_gpu and not os.environ.get("EAGLE3_EAGER") else function
        return chosen(*args, **kwargs)

    return dispatch
