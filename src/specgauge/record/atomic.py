"""Whole-file writes: temporary name, fsync, rename; a reader never sees half a file."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from specgauge.errors import EnvironmentFault


def _write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, make it durable, put it in place.

    Raises:
        EnvironmentFault: the disk is full, read-only or not ours to write; nothing is left behind.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        temporary.chmod(0o644)
        write(temporary)
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise write_fault(path, error) from error


def write_fault(path: Path, error: OSError) -> EnvironmentFault:
    """``error``, met while writing ``path``, in words for people."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentFault(
            f"{path}: the disk is full. What was written before is whole; "
            "free some space and run the same command again: it goes on where it stopped."
        )
    return EnvironmentFault(f"{path}: cannot be written: {error.strerror or error}")


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` as the whole of ``path``.  Raises EnvironmentFault."""
    _write_whole(path, lambda temporary: _fill(temporary, data))


def _fill(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` (UTF-8) as the whole of ``path``.  Raises EnvironmentFault."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON.  NaN is refused: a missing number is null."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write ``table`` as zstd-compressed Parquet.  Raises EnvironmentFault."""
    _write_whole(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))
