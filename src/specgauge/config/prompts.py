"""Prompts of a workload: read, checked, ordered."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specgauge.config.project import cache_folder
from specgauge.config.workload import Workload
from specgauge.errors import EnvironmentFault, UsageError
from specgauge.record.atomic import write_bytes

_FETCH_TIMEOUT_S = 60


@dataclass(frozen=True)
class Prompt:
    """One prompt: plain text, or the messages of a chat up to the model's turn."""

    id: str
    category: str
    messages: tuple[dict[str, str], ...]

    @property
    def text(self) -> str:
        """The prompt as text: what is sent without a chat template."""
        return "\n\n".join(message["content"] for message in self.messages)


@dataclass(frozen=True)
class Prompts:
    """A workload's prompts in their order, and the digest of the file they came from."""

    workload: Workload
    path: Path
    sha256: str
    prompts: tuple[Prompt, ...]

    def first(self, count: int, what: str) -> tuple[Prompt, ...]:
        """The first ``count`` prompts.  Raises UsageError if there are fewer."""
        if count > len(self.prompts):
            raise UsageError(
                f"{what} asks for {count} requests, but workload {self.workload.name!r} "
                f"({self.path}) has {len(self.prompts)} prompts. A prompt sent twice would be "
                "answered from the prefix cache: lower 'requests' or use more prompts."
            )
        return self.prompts[:count]

    def same_texts(self, count: int) -> list[tuple[str, str]]:
        """Ids of the first ``count`` prompts that repeat an earlier one: (earlier, repeated)."""
        first: dict[tuple[tuple[str, str], ...], str] = {}
        found = []
        for prompt in self.prompts[:count]:
            said = tuple((m["role"], m["content"]) for m in prompt.messages)
            if (earlier := first.setdefault(said, prompt.id)) != prompt.id:
                found.append((earlier, prompt.id))
        return found


def load_prompts(workload: Workload, beside: Path) -> Prompts:
    """Read the prompts of ``workload``; a relative path counts from the folder ``beside``.

    Raises:
        UsageError: missing, empty or broken file (with the line), or another file than meant.
        EnvironmentFault: the download failed.
    """
    path = _locate(workload, beside)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    digest = hashlib.sha256(data).hexdigest()
    if workload.sha256 is not None and digest != workload.sha256:
        raise UsageError(
            f"{path}: sha256 is {digest}, but workload {workload.name!r} needs {workload.sha256}: "
            "it is another version of the file, or it is damaged"
        )
    prompts = _parse(data, path, workload.format)
    if workload.order == "vllm_bench":
        random.Random(0).shuffle(prompts)
    return Prompts(workload, path, digest, tuple(prompts))


def _locate(workload: Workload, beside: Path) -> Path:
    if workload.path is not None:
        path = (beside / Path(workload.path).expanduser()).absolute()
        if path.is_file() or workload.url is None:
            if not path.is_file():
                raise UsageError(f"{path}: no such prompts file (workload {workload.name!r})")
            return path
    assert workload.url is not None
    assert workload.sha256 is not None
    cached = cache_folder() / "workloads" / f"{workload.sha256}.jsonl"
    if not cached.is_file():
        _fetch(workload.url, workload.sha256, cached)
    return cached


def _fetch(url: str, sha256: str, to: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as answer:
            data: bytes = answer.read()
    except ValueError as error:
        raise UsageError(f"'url: {url}': {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise EnvironmentFault(
            f"cannot fetch {url}: {error}. Without network, put the file somewhere and name it "
            "under 'path:' in the workload, or use the workload 'builtin'."
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise EnvironmentFault(f"{url}: sha256 is {digest}, expected {sha256}: not used")
    write_bytes(to, data)


def _parse(data: bytes, path: Path, kind: str) -> list[Prompt]:
    prompts: list[Prompt] = []
    seen: dict[str, int] = {}
    # Not splitlines(): that also splits at characters that JSON allows inside a string.
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(raw)
        except ValueError as error:
            raise UsageError(f"{where}: not a JSON object: {error}") from error
        except RecursionError:
            raise UsageError(f"{where}: nested too deeply for a prompt") from None
        if not isinstance(row, dict):
            raise UsageError(f"{where}: expected a JSON object, found a {type(row).__name__}")
        prompt = _spec_bench(row, where) if kind == "spec_bench" else _row(row, number, where)
        _check_text(prompt, where)
        if prompt.id in seen:
            raise UsageError(f"{where}: id {prompt.id!r} is also on line {seen[prompt.id]}")
        seen[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise UsageError(f"{path}: holds no prompts")
    return prompts


def _check_text(prompt: Prompt, where: str) -> None:
    said = [text for message in prompt.messages for text in message.values()]
    try:
        "".join([prompt.id, prompt.category, *said]).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{where}: holds half of a surrogate pair (\\u{ord(error.object[error.start]):04x}), "
            "which is no text"
        ) from None


def _identity(value: Any, key: str, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise UsageError(f"{where}: {key!r} must be a text or a number, found {value!r:.60}")
    return str(value)


def _row(row: dict[str, Any], number: int, where: str) -> Prompt:
    if "messages" in row:
        messages = row["messages"]
        valid = (
            isinstance(messages, list)
            and messages
            and all(
                isinstance(m, dict)
                and isinstance(m.get("role"), str)
                and isinstance(m.get("content"), str)
                and m["content"].strip()
                for m in messages
            )
        )
        if not valid:
            raise UsageError(
                f"{where}: 'messages' must be a list of objects with 'role' and 'content' texts"
            )
        turns = tuple({"role": m["role"], "content": m["content"]} for m in messages)
    else:
        turns = (_user(row.get("prompt"), "prompt", where),)
    identity = _identity(row.get("id", f"line-{number}"), "id", where)
    return Prompt(identity, str(row.get("category", "")), turns)


def _spec_bench(row: dict[str, Any], where: str) -> Prompt:
    turns = row.get("turns")
    if not isinstance(turns, list) or not turns:
        raise UsageError(f"{where}: Spec-Bench needs 'turns', a list of texts")
    if "question_id" not in row:
        raise UsageError(f"{where}: Spec-Bench needs 'question_id'")
    first = _user(turns[0], "turns", where)
    return Prompt(
        _identity(row["question_id"], "question_id", where), str(row.get("category", "")), (first,)
    )


def _user(text: Any, key: str, where: str) -> dict[str, str]:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: {key!r} must be a text that is not empty")
    return {"role": "user", "content": text}
