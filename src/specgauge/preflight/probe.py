"""Questions put to the server's own Python, in a process of its own and for a limited time."""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.serve.redact import STRUCK, secret_values

MARK = "SPECGAUGE "
"""Begins the line that holds the answer: libraries print what they like."""
_GRACE_S = 5.0
_LAST_LINES = 6
_KEPT = 20_000
"""Bytes of standard error where its lines were told already."""
_INSIDE = Path(__file__).with_name("inside")


@dataclass(frozen=True)
class Answer:
    """What came back."""

    value: Any
    """None: it did not get so far; ``said`` then tells why."""
    said: str
    """Its last lines, secrets struck out."""
    timed_out: bool = False


def source(name: str) -> str:
    """The text of ``inside/<name>.py``."""
    return (_INSIDE / f"{name}.py").read_text(encoding="utf-8")


def ask(
    python: Sequence[str],
    name: str,
    env: Mapping[str, str],
    limit_s: float | None,
    question: Any = None,
    on_line: Callable[[str], None] | None = None,
) -> Answer:
    """Run ``inside/<name>.py`` under ``python`` (a command's first words).

    Args:
        python: the interpreter, or a command that ends in one.
        name: which program.
        env: the whole environment; secrets travel only here.
        limit_s: after this time its whole process group is ended; None: it takes what it takes.
        question: JSON for its standard input.
        on_line: told each line of standard error at once (progress).
    """
    command = [*python, "-c", source(name)]
    status, out, err, late = bounded(command, env, limit_s, json.dumps(question), on_line)
    marked = [line for line in out.splitlines() if line.startswith(MARK)]
    value = json.loads(marked[-1][len(MARK) :]) if marked and not late else None
    text = _last(f"{out}\n{err}" if value is None else err, env)
    if late and limit_s is not None:
        text = f"no answer within {limit_s:.0f} s" + (f": {text}" if text else "")
    elif value is None and not text:
        text = f"it ended with status {status} and said nothing"
    return Answer(value, text, late)


def bounded(
    command: Sequence[str],
    env: Mapping[str, str],
    limit_s: float | None,
    stdin: str = "",
    on_line: Callable[[str], None] | None = None,
) -> tuple[int, str, str, bool]:
    """Run ``command``; its process group is gone afterwards, whatever happens.

    Returns status, standard output, standard error, and whether the time ran out (then the
    status is that of the signal).  A program that cannot be started: status 127 and why.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            process_group=0,
        )
    except OSError as error:
        return 127, "", f"{command[0]}: {error.strerror}", False
    try:
        if on_line is None:
            out, err = process.communicate(stdin.encode(), timeout=limit_s)
        else:
            out, err = _stream(process, stdin, on_line, limit_s)
        return process.returncode, _text(out), _text(err), False
    except subprocess.TimeoutExpired as late:
        _end(process)
        return process.returncode, _text(late.stdout), _text(late.stderr), True
    finally:
        _end(process)


def _stream(
    process: subprocess.Popen[bytes],
    stdin: str,
    on_line: Callable[[str], None],
    limit_s: float | None,
) -> tuple[bytes, bytes]:
    """As ``communicate``, but each line of standard error is told at once.

    Raises:
        subprocess.TimeoutExpired: with what came so far.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    ends = None if limit_s is None else time.monotonic() + limit_s
    with contextlib.suppress(BrokenPipeError):  # it answers without reading the question
        process.stdin.write(stdin.encode())
        process.stdin.close()
    out = kept = pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(process.args, limit_s or 0, out, kept + pending)
            for key, _ in selector.select(left):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    out += data
                else:
                    *lines, pending = re.split(rb"[\r\n]", pending + data)
                    for line in lines:
                        on_line(_text(line))
                        kept = (kept + line + b"\n")[-_KEPT:]
    process.wait(None if ends is None else max(0.0, ends - time.monotonic()))
    return out, kept + pending


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
            if number == signal.SIGTERM:
                continue  # KILL what it may have left in its group
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _last(text: str, env: Mapping[str, str]) -> str:
    for secret in secret_values(dict(env), []):
        text = text.replace(secret.decode(), STRUCK)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(line[:300] for line in lines[-_LAST_LINES:])


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="replace")
