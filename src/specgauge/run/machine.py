"""Facts of the machine, the versions and the checkout, for the manifest."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from specgauge.config.experiment import Server
from specgauge.config.project import Project
from specgauge.gpu.device import NvmlFault, NvmlUnavailable
from specgauge.gpu.nvml import open_nvml
from specgauge.serve.interpreter import python_of
from specgauge.serve.packages import TELLING


def machine_facts() -> dict[str, Any]:
    """CPU, memory, GPUs, kernel, Python; no host name, no user name."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gpus": _gpus(),
    }


def _gpus() -> list[str] | None:
    """Names of the GPUs, by NVML's index; empty without NVML, None where it does not answer."""
    try:
        return [device.name for device in open_nvml().devices()]
    except NvmlUnavailable:
        return []
    except NvmlFault:
        return None


def who_reaches(server: Server) -> str:
    """A sentence: who can send requests to the server while it runs."""
    at = f"{server.host}:{server.port}"
    if server.host in ("localhost", "::1") or server.host.startswith("127."):
        return f"While it runs, the server at {at} can be reached by every user of this machine."
    return (
        f"While it runs, the server at {at} can be reached by everybody who reaches this machine "
        "over its network ('server: host:' in the experiment)."
    )


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def git_facts(project: Project) -> dict[str, Any]:
    """Commit of the checkout and whether it has changes; empty outside git.

    An image holds neither git nor the checkout: its build leaves the commit in the environment.
    """
    if built_from := os.environ.get("SPECGAUGE_COMMIT"):
        return {"commit": built_from, "changed": None}

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(project.root), *words],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        ).stdout.strip()

    try:
        return {
            "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.SubprocessError):
        return {}


def packages_of(program: str) -> dict[str, str]:
    """Versions of the packages that decide speed, in the environment of a server's program.

    Empty where there is no Python behind it.
    """
    if (python := python_of(program)) is None:
        return {}
    code = (
        "import importlib.metadata as m, json\n"
        "found = {}\n"
        f"for n in {TELLING!r}:\n"
        "    try: found[n] = m.version(n)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    try:
        answer = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        found: dict[str, str] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found


def host_load() -> dict[str, float]:
    """One-minute load average and seconds stolen by the hypervisor so far, where known."""
    facts: dict[str, float] = {}
    if hasattr(os, "getloadavg"):
        facts["load_1m"] = os.getloadavg()[0]
    steal = getattr(psutil.cpu_times(), "steal", None)
    if steal is not None:
        facts["steal_s"] = float(steal)
    return facts
