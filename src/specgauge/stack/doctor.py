"""``specgauge doctor``: is this machine fit for the Compose way?  Each fault with its remedy."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specgauge.errors import EnvironmentFault, SpecgaugeError
from specgauge.gpu.device import NvmlUnavailable
from specgauge.gpu.find import devices, table
from specgauge.gpu.nvml import open_nvml
from specgauge.stack.engine import Engine, strangers
from specgauge.stack.env import read

OLDEST_COMPOSE = (2, 24)
"""``!reset`` came with 2.24, ``required: false`` with 2.20."""
SPACE_NEEDED = 40 * 10**9
"""Bytes: the published vLLM image is about 10 GB packed and 25 GB unpacked."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at.  ``ok`` None: worth knowing, not a fault."""

    ok: bool | None
    text: str


def examine(root: Path) -> Iterator[Finding]:
    """Look at everything, cheapest first; goes on past faults where that makes sense."""
    env = read(root / ".env")
    if "SPECGAUGE_PROJECT" in env:
        yield Finding(True, f".env: project {env['SPECGAUGE_PROJECT']}")
    else:
        yield Finding(False, "there is no .env here yet: type 'make env'")
    yield _compose()
    try:
        engine = Engine()
    except EnvironmentFault as fault:
        yield Finding(False, str(fault))
        return
    yield Finding(True, f"engine: {engine.words()}")
    support = engine.gpu_support()
    yield Finding(
        True if support else None,
        f"GPUs for containers: {support}"
        if support
        else "no nvidia runtime and no CDI: GPU models need the NVIDIA container toolkit; "
        "CPU=1 works without",
    )
    yield _gpus(env)
    yield from _containers(engine, env, root)
    for name, usual in (("PROMETHEUS_PORT", "9090"), ("GRAFANA_PORT", "3000")):
        yield _port(name, int(env.get(name) or usual), engine, env)
    free = shutil.disk_usage(root).free
    yield Finding(
        True if free > SPACE_NEEDED else None,
        f"disk: {free / 1e9:.0f} GB free here (the GPU image needs about 25 GB)",
    )


def _compose() -> Finding:
    remedy = f"install the Compose plugin, {OLDEST_COMPOSE[0]}.{OLDEST_COMPOSE[1]} or newer"
    try:
        answer = subprocess.run(
            ["docker", "compose", "version", "--short"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except FileNotFoundError:
        return Finding(False, f"there is no 'docker' program: install Docker, and {remedy}")
    found = re.search(r"(\d+)\.(\d+)", answer.stdout)
    if answer.returncode != 0 or found is None:
        return Finding(False, f"'docker compose' does not work: {remedy}")
    version = (int(found[1]), int(found[2]))
    if version < OLDEST_COMPOSE:
        return Finding(False, f"Compose {answer.stdout.strip()} is too old: {remedy}")
    return Finding(True, f"Compose {answer.stdout.strip()}")


def _gpus(env: dict[str, str]) -> Finding:
    try:
        nvml = open_nvml()
        present = devices(nvml)
    except (NvmlUnavailable, SpecgaugeError) as error:
        return Finding(None, f"no GPU is seen ({error}): CPU=1 uses the CPU build")
    pinned = env.get("GPU_UUID")
    known = {uuid for d in present for uuid in (d.uuid, *d.mig_uuids)}
    listed = f"driver {nvml.driver()}\n{table(present)}"
    if not pinned:
        return Finding(False, f"no GPU is chosen: make pin GPU_PCI_BUS_ID=… of {listed}")
    if pinned not in known:
        return Finding(False, f"the pinned GPU {pinned} is not here; make pin again: {listed}")
    return Finding(True, f"GPU: {pinned} at {env.get('GPU_PCI_BUS_ID')} ({listed})")


def _containers(engine: Engine, env: dict[str, str], root: Path) -> Iterator[Finding]:
    name = env.get("SPECGAUGE_PROJECT")
    seen = engine.project(name) if name else []
    for one in strangers(seen, root):
        yield Finding(False, f"{one.name} carries this project's name, but is of {one.folder}")
    running = [one.words() for one in seen if one.running]
    if running:
        yield Finding(None, f"running now: {'; '.join(running)} ('make down' stops them)")


def _port(name: str, port: int, engine: Engine, env: dict[str, str]) -> Finding:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            service = name.partition("_")[0].lower()
            ours = engine.project(env.get("SPECGAUGE_PROJECT", ""))
            if any(one.service == service and one.running for one in ours):
                return Finding(True, f"port {port}: this project's {service}")
            return Finding(False, f"port {port} is taken: set {name} in .env to a free one")
    return Finding(True, f"port {port} is free ({name})")
