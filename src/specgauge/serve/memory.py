"""Did the kernel kill a process of this control group for want of memory?  Stdlib only."""

from __future__ import annotations

from pathlib import Path


def oom_kills(root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc/self/cgroup")) -> int:
    """Processes of this control group killed so far by its memory limit; 0 where not told.

    Version 2 counts in ``memory.events``, version 1 in ``memory.oom_control``.  Inside a container
    the group is the root of what is mounted, outside it lies at the path in ``/proc/self/cgroup``.
    """
    paths: list[Path] = []
    try:
        lines = proc.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            paths.append(root / group.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            paths.append(root / "memory" / group.lstrip("/") / "memory.oom_control")
    paths += [root / "memory.events", root / "memory" / "memory.oom_control"]
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0
