"""What may differ between two commands that write into one run, and what keeps them apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from specgauge.record.manifest import Manifest
from specgauge.serve.redact import strike_out, strike_out_args, strike_out_argv

_UNTELLING = frozenset({"variants", "description", "expected_s", "confirm", "on_graph_failure"})
"""Keys of an experiment that do not change what a start measures."""

PER_COMMAND = frozenset({"host", "port", "ready_timeout_s", "stop_grace_s"})
"""Keys of ``server:`` that say where and how patiently, not what: each command has its own."""

_MACHINE = ("cpu", "cores", "usable_cores", "gpus", "gpu_uuid")
_MEMORY_TOLERANCE = 0.02
"""A kernel update moves what it keeps for itself."""


def fingerprint(parts: dict[str, Any]) -> str:
    """Hex digest of ``parts`` (JSON values), independent of key order."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def telling_experiment(experiment: dict[str, Any]) -> dict[str, Any]:
    """The keys of an experiment that all starts of a run must share."""
    told = {key: value for key, value in experiment.items() if key not in _UNTELLING}
    if isinstance(server := told.get("server"), dict):
        told["server"] = {k: v for k, v in server.items() if k not in PER_COMMAND}
    return told


def telling(document: dict[str, Any]) -> dict[str, Any]:
    """A model or a variant without what is only for people."""
    return {key: value for key, value in document.items() if key != "description"}


def struck_out(value: Any, key: str = "") -> Any:
    """A configuration document without secrets, for what is written."""
    if key in ("env", "server_env"):
        return strike_out(value)
    if key in ("args", "server_args", "speculative_config"):
        return strike_out_args(value)
    if key == "command":
        return strike_out_argv(value)
    if isinstance(value, dict):
        return {name: struck_out(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [struck_out(item) for item in value]
    return strike_out_args(value)


def differs(old: Manifest, new: Manifest) -> str | None:
    """What keeps ``new`` from joining ``old``, in words; None when nothing does."""
    return _measures_else(old, new) or machine_differs(old, new)


def machine_differs(old: Manifest, new: Manifest) -> str | None:
    """Why ``new``'s machine is not ``old``'s, in words.  A fact that either lacks tells nothing."""
    was, now = old.machine, new.machine
    found = [
        f"{key} was {_shown(was[key])}, here it is {_shown(now[key])}"
        for key in _MACHINE
        if was.get(key) is not None and now.get(key) is not None and was[key] != now[key]
    ]
    was_gib, now_gib = was.get("memory_gib") or 0.0, now.get("memory_gib") or 0.0
    if was_gib and now_gib and abs(was_gib - now_gib) > _MEMORY_TOLERANCE * max(was_gib, now_gib):
        found.append(f"memory was {was_gib} GiB, here it is {now_gib} GiB")
    return f"it was measured on another machine: {'; '.join(found)}" if found else None


def tooling(manifest: Manifest) -> dict[str, Any]:
    """Versions that seldom change a number: another one joins a run, and that is written down."""
    return {
        "specgauge": manifest.specgauge_version,
        "commit": manifest.git.get("commit"),
        "kernel": manifest.machine.get("kernel"),
        "python": manifest.machine.get("python"),
    }


def _measures_else(old: Manifest, new: Manifest) -> str | None:
    for name in new.variants:
        marks = old.variant_marks.get(name), new.variant_marks.get(name)
        known = name in old.variants
        if (known and telling(old.variants[name]) != telling(struck_out(new.variants[name]))) or (
            None not in marks and marks[0] != marks[1]
        ):
            return f"variant {name!r} was defined differently"
    if old.fingerprint == new.fingerprint:
        return None
    sections = {
        "experiment": (telling_experiment(old.experiment), telling_experiment(new.experiment)),
        "model": (telling(old.model), telling(new.model)),
        "workload": (old.workload.sha256, new.workload.sha256),
        "warm-up's workload": tuple(
            manifest.warmup_workload and manifest.warmup_workload.sha256 for manifest in (old, new)
        ),
        "runtime": (old.runtime, new.runtime),
    }
    for what, (was, now) in sections.items():
        if was != now:
            keys = _different(was, now) if isinstance(was, dict) and isinstance(now, dict) else []
            return f"its {what} differs{' in ' + ', '.join(keys) if keys else ''}"
    return "its fingerprint differs: by a value that is not recorded, such as a token or a key"


def _different(was: dict[str, Any], now: dict[str, Any], at: str = "") -> list[str]:
    found = []
    for key in {**was, **now}:
        one, other = was.get(key), now.get(key)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            found += _different(one, other, f"{at}{key}.")
        else:
            found.append(f"{at}{key}")
    return found


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
