"""Is a port free, and if not, who has it?"""

from __future__ import annotations

import contextlib
import socket

import psutil

from specgauge.errors import EnvironmentFault


def require_free(host: str, port: int) -> None:
    """Return if ``host:port`` can be listened on.

    Raises:
        EnvironmentFault: taken; the message names the process where the system tells it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise EnvironmentFault(
                f"port {port} on {host} is taken{_holder(port)}. Stop it if it is yours, or set "
                "another one under 'server: port:' in the experiment, or with --port."
            ) from error


def _holder(port: int) -> str:
    """`` by python3 (pid 12, user ann)``, or nothing where the system does not say."""
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            address = connection.laddr
            listening = connection.status == psutil.CONN_LISTEN
            if listening and address and address[1] == port and connection.pid:
                process = psutil.Process(connection.pid)
                with process.oneshot():
                    return (
                        f" by {process.name()} (pid {process.pid}, user {process.username()}: "
                        f"{' '.join(process.cmdline())[:120]})"
                    )
    return " by a process that this user may not see"
