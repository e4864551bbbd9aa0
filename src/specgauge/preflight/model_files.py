"""Where a model's files are on this machine: a folder, the hub's cache, or nowhere yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TRUE = ("1", "ON", "YES", "TRUE")
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class ModelFiles:
    """One model, target or drafter."""

    name: str
    """As configured: a hub name or a folder."""
    folder: Path | None
    """Where its files are, or None: not here."""
    config: dict[str, Any] | None
    missing: tuple[str, ...]
    """Weight files that the index names and that are not here; also when there are none at all."""
    size: int
    """Bytes of its weight files here."""
    indexed: int | None = None
    """Bytes of all weights, as the safetensors index or the hub tells."""
    on_hub: int = 0
    """Bytes that would have to be fetched, as the hub tells; 0 if not asked."""

    @property
    def complete(self) -> bool:
        """Configuration and every weight file are here."""
        return self.config is not None and not self.missing


def offline(env: Mapping[str, str]) -> str | None:
    """The variable that forbids asking the hub, or None."""
    return next((name for name in OFFLINE if env.get(name, "").upper() in _TRUE), None)


def hub_cache(env: Mapping[str, str]) -> Path:
    """The hub's cache folder, by huggingface_hub's rules."""
    if given := env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE"):
        return Path(given).expanduser()
    home = env.get("HF_HOME")
    if not home:
        base = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME", "~")) / ".cache")
        home = str(Path(base) / "huggingface")
    return Path(home).expanduser() / "hub"


def look(name: str, revision: str | None, cache: Path) -> ModelFiles:
    """What of ``name`` (an existing folder, or a hub name) is on this machine."""
    given = Path(name)
    folder = given if given.is_dir() else _snapshot(name, revision or "main", cache)
    if folder is None:
        return ModelFiles(name, None, None, ("its weights",), 0)
    return _in(folder, name)


def is_hub_name(name: str) -> bool:
    """Whether ``name`` can only be meant for the hub."""
    return not Path(name).is_dir() and not name.startswith(("/", ".", "~"))


def _snapshot(name: str, revision: str, cache: Path) -> Path | None:
    """The cache's folder of a revision: ``models--org--name/snapshots/<commit>``."""
    root = cache / f"models--{name.replace('/', '--')}"
    try:
        commit = (root / "refs" / revision).read_text(encoding="utf-8").strip()
    except OSError:
        commit = revision
    folder = root / "snapshots" / commit
    return folder if folder.is_dir() else None


def _in(folder: Path, name: str) -> ModelFiles:
    config = _json(folder / "config.json")
    index = _json(folder / _INDEX)
    total: int | None = None
    if index is not None:
        files = sorted(set((index.get("weight_map") or {}).values()))
        missing = tuple(file for file in files if not (folder / file).is_file())
        total = (index.get("metadata") or {}).get("total_size")
    else:
        found = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
        files = sorted(path.name for path in found if path.is_file())
        missing = () if files else ("its weights",)
    size = sum((folder / f).stat().st_size for f in files if (folder / f).is_file())
    return ModelFiles(name, folder, config, missing, size, int(total) if total else None)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
