"""The containers of one preflight: service ``preflight``, and none of them left behind."""

from __future__ import annotations

import secrets
import subprocess
import time
from pathlib import Path

from specgauge.stack.choose import Stack

SERVICE = "preflight"
LABEL = "specgauge.preflight"
_DOCKER_LIMIT_S = 30.0
_SWEEP_LIMIT_S = 60.0
_QUIET_S = 1.0
"""A client that was killed may have a container in the making: looked for once more after this."""


class Containers:
    """What preflight runs in the vLLM image of ``stack``; a label of its own marks it."""

    def __init__(self, stack: Stack, root: Path) -> None:
        self.stack = stack
        self._label = f"{LABEL}={secrets.token_hex(8)}"
        self.python = [
            "docker", "compose", "--project-directory", str(root), *stack.files, "run", "--rm",
            "-T", "--no-deps", "--label", self._label, SERVICE,
        ]  # fmt: skip
        """A command that ends in the image's Python."""

    @property
    def image(self) -> str:
        """Which image that is."""
        return self.stack.image("vllm")

    def sweep(self) -> list[str]:
        """Remove what is still there (normally nothing: ``--rm``).

        Returns the ids of containers that cannot be removed; where Docker does not answer, words
        for a shell that name those that may be left.
        """
        deadline = time.monotonic() + _SWEEP_LIMIT_S
        seen_none_at: float | None = None
        while True:
            left = self._listed()
            if left is None:
                return [f"$(docker ps -aq --filter label={self._label})"]
            now = time.monotonic()
            if left:
                _docker("rm", "--force", "--volumes", *left)
                seen_none_at = None
            elif seen_none_at is not None and now - seen_none_at >= _QUIET_S:
                return []
            else:
                seen_none_at = seen_none_at or now
            if now > deadline:
                return left
            time.sleep(0.2)

    def _listed(self) -> list[str] | None:
        said = _docker("ps", "--all", "--quiet", "--filter", f"label={self._label}")
        return None if said is None else said.split()


def _docker(*words: str) -> str | None:
    """What ``docker`` says; None where it does not answer or fails."""
    try:
        done = subprocess.run(
            ["docker", *words],
            capture_output=True,
            text=True,
            timeout=_DOCKER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
