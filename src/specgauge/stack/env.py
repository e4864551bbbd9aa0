"""``make env``: writes what compose.yaml needs into .env and makes the folders.  Stdlib only.

Lines that are there stay as they are; only missing ones are added.  The folders must exist before
the engine mounts them: it would make missing ones as root.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("results", "models", ".stack/control", ".stack/cache", ".stack/prometheus")
LOCKS = "/tmp/specgauge-locks"


def project_name(user: str, root: Path) -> str:
    """Compose's project name of a checkout: the user, and a hash of the folder's path."""
    clean = re.sub(r"[^a-z0-9]", "", user.lower()) or "user"
    digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:8]
    return f"specgauge-{clean}-{digest}"


def defaults(root: Path, rootless: bool) -> dict[str, str]:
    """The variables of a fresh .env.

    Under a rootless engine the containers' root *is* the user, and any other user is nobody.
    """
    home = Path.home()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    hub = os.environ.get("HF_HUB_CACHE")
    hub = hub or str(Path(os.environ.get("HF_HOME") or cache / "huggingface") / "hub")
    return {
        "SPECGAUGE_PROJECT": project_name(_user(), root),
        "SPECGAUGE_UID": "0" if rootless else str(os.getuid()),
        "SPECGAUGE_GID": "0" if rootless else str(os.getgid()),
        "MODEL_CACHE": os.environ.get("SPECGAUGE_CACHE") or str(cache / "specgauge"),
        "HF_CACHE": hub,
    }


def read(path: Path) -> dict[str, str]:
    """The variables in a .env file; empty where there is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.partition(" #")[0].strip().strip("'\"") for name, _, value in pairs}


def put(path: Path, values: dict[str, str]) -> None:
    """Set variables in a .env file, every other line as it was."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    left = dict(values)
    for at, line in enumerate(lines):
        name = line.partition("=")[0].strip()
        if name in left:
            lines[at] = f"{name}={left.pop(name)}"
    lines += [f"{name}={value}" for name, value in left.items()]
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(path)


def prepare(root: Path, rootless: bool) -> dict[str, str]:
    """Complete ``root``'s .env and folders; returns its variables."""
    path = root / ".env"
    have = read(path)
    missing = {k: v for k, v in defaults(root, rootless).items() if k not in have}
    if missing:
        put(path, missing)
    values = {**have, **missing}
    stack = Path(values.get("STACK_FOLDER") or root / ".stack")
    for name in FOLDERS:
        folder = root / name if not name.startswith(".stack") else stack / Path(name).name
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("MODEL_CACHE", "HF_CACHE"):
        Path(values[name]).mkdir(parents=True, exist_ok=True)
    locks = Path(values.get("LOCK_FOLDER") or LOCKS)
    locks.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        locks.chmod(0o1777)  # every user of the machine locks the same GPUs
    return values


def is_rootless() -> bool:
    """Whether the engine that ``docker`` talks to runs without root."""
    try:
        answer = subprocess.run(
            ["docker", "info", "--format", "{{.SecurityOptions}}"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "rootless" in answer.stdout


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid{os.getuid()}"


def main() -> int:
    """Prepare the checkout in the current folder."""
    root = Path.cwd()
    if not (root / "compose.yaml").is_file():
        print(f"specgauge: {root} has no compose.yaml: run this in the checkout", file=sys.stderr)
        return 2
    values = prepare(root, is_rootless())
    print(f"{root / '.env'}: project {values['SPECGAUGE_PROJECT']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
