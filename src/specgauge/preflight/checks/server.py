"""The server's program and its Python: there at all, and free of the known traps."""

from __future__ import annotations

from specgauge.preflight.context import Context
from specgauge.preflight.probe import Answer, ask
from specgauge.preflight.result import Result, fail, ok, skipped, warn
from specgauge.serve.interpreter import python_of

LIMIT_S = 60.0
"""A cold network disk makes Python slow to start."""
SHM_NEEDED = 2**29
"""Docker's default of 64 MiB is known to be too little; 1 GiB was enough for the CPU build."""


def program(context: Context) -> Result:
    """The server's program, and which vLLM is in its environment."""
    found, config = context.found, context.resolved.experiment.server
    found.program = context.runtime.program(config, context.project)  # EnvironmentFault: not there
    if found.python is None:
        python = python_of(found.program[0])
        if python is None:
            return warn(
                f"{found.program[0]}: cannot tell which Python it runs on",
                "nothing about its environment is checked below; name the interpreter itself: "
                "'server: command: [/path/to/python, -m, vllm.entrypoints.cli.main, serve]'",
            )
        found.python = [python]
    answer = ask(found.python, "environment", context.server_env(), LIMIT_S)
    if answer.value is None:
        return _no_python(context, answer)
    found.environment = answer.value
    packages = answer.value["packages"]
    where = f"Python {answer.value['python']} ({answer.value['executable']})"
    if "vllm" not in packages:
        if not serves_vllm(context):
            return ok(f"{' '.join(found.program)} on {where}: not vLLM itself")
        return fail(
            f"{where} has no vLLM",
            "install vLLM there, or name another program under 'server: command:' in "
            f"{context.resolved.path}; a virtual environment's vllm is only on PATH while it is "
            "activated",
        )
    wanted = config.vllm_version
    if wanted is not None and not packages["vllm"].startswith(wanted):
        return fail(
            f"vLLM {packages['vllm']} on {where}, but experiment "
            f"{context.resolved.experiment.name!r} is about {wanted}",
            f"install vllm=={wanted} in an environment of its own and name its program under "
            f"'server: command:', or remove 'vllm_version:' from {context.resolved.path}",
        )
    return ok(f"vLLM {packages['vllm']}, torch {packages.get('torch', 'none')}, {where}")


def _no_python(context: Context, answer: Answer) -> Result:
    python = " ".join(context.found.python or [])
    if context.compose:
        return fail(f"Python in the vLLM image does not answer: {answer.said}", "make build")
    return fail(
        f"{python} does not answer: {answer.said}",
        f"is its environment whole? {context.resolved.path} names it: 'server: command:'",
    )


def traps(context: Context) -> Result:
    """Python traps.  ``array.array[int]`` is really evaluated, in the server's own Python."""
    env = context.found.environment
    if not env:
        return skipped("the server's Python is not known")
    version, error = env["python"], env["array_subscript"]
    flashinfer = env["packages"].get("flashinfer-python")
    if error is None:
        return ok(f"array.array[int] can be evaluated on Python {version}")
    trap = env["evaluates_array_subscript"]
    if trap is not None:
        return fail(
            f"flashinfer {flashinfer or ''} evaluates array.array[int] in {trap} when it is "
            f"imported, and Python {version} cannot: {error}",
            "make the server's environment with Python 3.12 or newer: "
            "uv venv --python 3.12, then install vLLM there again",
        )
    why = "no flashinfer is here" if flashinfer is None else f"flashinfer {flashinfer} does not"
    return ok(f"Python {version} cannot evaluate array.array[int]; nothing here needs it: {why}")


def serves_vllm(context: Context) -> bool:
    """Whether the server's program is vLLM's own command line."""
    words = context.found.program or []
    return any(word == "vllm" or word.startswith("vllm.") for word in words) or (
        bool(words) and words[0].rsplit("/", 1)[-1] == "vllm"
    )


def shared_memory(context: Context) -> Result:
    """/dev/shm, which vLLM's processes exchange data through; small in containers by default."""
    size = context.found.environment.get("shm_bytes")
    if size is None:
        return skipped("it is not known here")
    if size < SHM_NEEDED:
        remedy = (
            "shm_size: 2g for the service in compose.yaml"
            if context.compose
            else "enlarge it (mount -o remount,size=2g /dev/shm; a container: --shm-size 2g)"
        )
        return fail(f"/dev/shm holds {size / 2**20:.0f} MiB: too little for vLLM", remedy)
    return ok(f"/dev/shm holds {size / 2**30:.1f} GiB")
