"""Is a port free, and if not, who has it?  Does only our server answer on it?"""

from __future__ import annotations

import contextlib
import errno
import os
import socket

import psutil

from specgauge.errors import EnvironmentFault
from specgauge.gpu.lock import DeviceLock
from specgauge.serve.tree import descendants


def require_free(host: str, port: int) -> None:
    """Return if ``host:port`` can be listened on.

    Raises:
        EnvironmentFault: taken (the message names the process where the system tells it), or no
            address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise EnvironmentFault(
                    f"the server cannot listen on {host}:{port}: {error.strerror or error} "
                    "('server: host:' in the experiment)"
                ) from error
            holder = _words(next(iter(_listeners(port)), None))
            raise EnvironmentFault(
                f"port {port} on {host} is taken{holder}. Stop it if it is yours, or set "
                "another one under 'server: port:' in the experiment, or with --port."
            ) from error


def claim(port: int) -> DeviceLock:
    """Reserve ``port`` among all specgauge commands of this machine; release it after the server.

    A free port is not enough: vLLM sets SO_REUSEPORT and listens long after its start, so two
    servers could share the port, and each load would be spread over both.

    Raises:
        EnvironmentFault: another specgauge command has it.
    """
    lock = DeviceLock(f"port-{port}")
    if not lock.acquire(0.0, lambda _: False):
        raise EnvironmentFault(
            f"port {port} is in use by another specgauge command ({lock.holder()}): wait for it, "
            "or set another one under 'server: port:' in the experiment, or with --port."
        )
    return lock


def require_ours(port: int, root: int) -> None:
    """Return if nobody but process ``root`` and its descendants listens on ``port``.

    Raises:
        EnvironmentFault: somebody else does: requests would be spread over both.
    """
    ours = {root, *descendants(root)}
    for pid in _listeners(port):
        if pid not in ours and pid != os.getpid():
            raise EnvironmentFault(
                f"port {port} is listened on by our server and{_words(pid)}: "
                "requests would be spread over both"
            )


def _listeners(port: int) -> list[int | None]:
    """Processes that listen on ``port``; None for one that this user may not see."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS: only root may ask
        return []
    return [
        c.pid for c in found if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr[1] == port
    ]


def _words(pid: int | None) -> str:
    """`` by python3 (pid 12, user ann: …)``, as far as the system says."""
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            with process.oneshot():
                return (
                    f" by {process.name()} (pid {process.pid}, user {process.username()}: "
                    f"{' '.join(process.cmdline())[:120]})"
                )
    return " by a process that this user may not see"
