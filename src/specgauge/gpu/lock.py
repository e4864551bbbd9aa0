"""A host-wide lock per GPU, shared by both ways to run and by all users.  Stdlib only.

It is an ``flock``: the kernel releases it when its holder ends, however it ends, and it works
between containers that mount the same folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from specgauge.errors import EnvironmentFault

FOLDER = "SPECGAUGE_LOCKS"
"""Environment variable that names another folder for the locks."""
DEFAULT_FOLDER = "/tmp/specgauge-locks"
_POLL_S = 0.5


class DeviceLock:
    """The lock of one device; ``key`` is a GPU's UUID (a MIG instance's own), or ``cpu``."""

    def __init__(self, key: str, folder: Path | None = None) -> None:
        self._folder = folder or Path(os.environ.get(FOLDER) or DEFAULT_FOLDER)
        self._path = self._folder / (re.sub(r"[^\w-]", "_", key) + ".lock")
        self._file: int | None = None

    def acquire(
        self, limit_s: float, on_wait: Callable[[str], bool], what: str | None = None
    ) -> bool:
        """Take it.  Returns False if it was not to be had.

        Args:
            limit_s: how long to wait for another holder.
            on_wait: told who holds it, at every look; False ends the waiting.
            what: shown to others who wait for us; default: user and process.

        Raises:
            EnvironmentFault: the lock folder cannot be used.
        """
        descriptor = self._open()
        deadline = time.monotonic() + limit_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise
            else:
                self._file = descriptor
                self._sign(what or _self_words())
                return True
            if time.monotonic() >= deadline or not on_wait(self.holder()):
                os.close(descriptor)
                return False
            time.sleep(_POLL_S)

    def release(self) -> None:
        """Give it back; safe to call twice."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def holder(self) -> str:
        """Who says to hold it, for people; only a hint, the lock itself is the kernel's."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return str(json.loads(self._path.read_text(encoding="utf-8"))["holder"])
        return "another specgauge"

    def _open(self) -> int:
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(OSError):
                    self._folder.chmod(0o1777)  # as /tmp: every user of the machine may lock
            try:
                # First without O_CREAT: in a sticky folder Linux refuses it for another's file.
                return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                with contextlib.suppress(OSError):
                    os.fchmod(descriptor, 0o666)  # whatever the umask
                return descriptor
        except OSError as error:
            raise EnvironmentFault(
                f"{self._path}: the GPU's lock cannot be used: {error.strerror}. "
                f"{FOLDER} names another folder for locks (the same for all who share the GPU)."
            ) from error

    def _sign(self, words: str) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file or 0, 0)
            os.pwrite(self._file or 0, json.dumps({"holder": words}).encode(), 0)


def _self_words() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = f"uid {os.getuid()}"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"{user}, pid {os.getpid()}, since {since}"
