"""Port, disk and memory of the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from specgauge.preflight.context import Context, gib
from specgauge.preflight.result import Result, fail, ok, skipped, warn
from specgauge.serve.ports import claim, require_free

_CACHES_GPU = 8 * 2**30
"""Compile caches of four variants (about 1 GiB each on an H200) and what FlashInfer builds."""
_CACHES_CPU = 2**28
_RESULTS = 2**30
"""Raw records of a large run."""


def prompts(context: Context) -> Result:
    """The workloads: here, or downloaded once (their hash is checked)."""
    resolved = context.resolved
    if resolved.missing is not None:
        return fail(
            resolved.missing,
            "put the file there by hand, or name another workload in the experiment",
        )
    needed = max(load.requests for load in resolved.experiment.loads)
    return ok(f"{resolved.prompts.workload.name}: {needed} of {len(resolved.prompts.prompts)}")


def port(context: Context) -> Result:
    """Free, and who will be able to reach it."""
    if context.compose:
        return skipped("the server's port is inside the stack's own network, not published")
    server = context.resolved.experiment.server
    require_free(server.host, server.port)  # EnvironmentFault names who has it
    claim(server.port).release()
    where = f"port {server.port} on {server.host} is free"
    if server.host in ("localhost", "::1") or server.host.startswith("127."):
        return ok(f"{where}; only this machine's users can reach it")
    return warn(
        f"{where}, and whoever reaches this machine over the network will reach the server",
        "'server: host: 127.0.0.1' keeps it to this machine; foreign requests spoil the numbers",
    )


def disk(context: Context) -> Result:
    """Room for what will be written, added up per file system."""
    to_fetch = sum(
        files.on_hub
        for files in context.found.files.values()
        if not files.complete and not _dummy(context)
    )
    wants = [
        (context.hub_cache(), to_fetch, "models"),
        (context.model_cache(), _CACHES_CPU if context.cpu else _CACHES_GPU, "compile caches"),
        (context.project.results, _RESULTS, "results"),
    ]
    rooms: dict[int, tuple[Path, int, list[str]]] = {}
    for folder, size, what in wants:
        if size:
            there = _existing(folder)
            device = os.stat(there).st_dev
            path, total, words = rooms.get(device, (there, 0, []))
            rooms[device] = (path, total + size, [*words, f"{gib(size)} for {what}"])
    seen = []
    for path, needed, words in rooms.values():
        free = shutil.disk_usage(path).free
        if free < needed:
            return fail(
                f"{path}: {gib(free)} free, needed: {', '.join(words)}",
                "make room, or point elsewhere: HF_HOME (models), SPECGAUGE_CACHE (caches), "
                "SPECGAUGE_RESULTS (results)",
            )
        seen.append(f"{gib(free)} free at {path} ({', '.join(words)})")
    return ok("; ".join(seen))


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _dummy(context: Context) -> bool:
    return context.server_args(context.variants[0]).get("load-format") == "dummy"
