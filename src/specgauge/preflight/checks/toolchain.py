"""Compiler, ninja and CUDA toolkit, for what Triton and FlashInfer build as the server starts."""

from __future__ import annotations

from specgauge.preflight.context import Context
from specgauge.preflight.result import Result, fail, ok, skipped, warn

_PREBUILT = ("flashinfer-jit-cache", "flashinfer-cubin")


def toolchain(context: Context) -> Result:
    """Looked for where they are looked for: on the PATH that the server will have."""
    env = context.found.environment
    if not env:
        return skipped("the server's Python is not known")
    if context.cpu:
        return _cpu(context)
    if env["compiler"] is None:
        return fail(
            "no C compiler: Triton builds its launcher with one at the first start",
            "install gcc (apt-get install build-essential), or name one: CC",
        )
    lacking = [] if env["python_h"] else ["Python.h (python3-dev), which Triton's launcher needs"]
    if "flashinfer-python" in env["packages"]:
        lacking += _flashinfer(context)
    if lacking:
        return warn(
            f"missing: {'; '.join(lacking)}",
            "install them, or the server may end while it starts or at the first sampled token",
        )
    return ok(f"{env['compiler']}, ninja {env['ninja'] or 'not needed'}, nvcc {env['nvcc']}")


def _flashinfer(context: Context) -> list[str]:
    env = context.found.environment
    if _PREBUILT[0] in env["packages"]:
        return []
    lacking = []
    if env["ninja"] is None:
        where = env["ninja_beside"]
        hint = f" (it is at {where}, but not on PATH: activate that environment)" if where else ""
        lacking.append(f"ninja{hint}")
    if env["nvcc"] is None:
        lacking.append("nvcc, the CUDA toolkit (cuda-toolkit; CUDA_HOME)")
    if env["cxx"] is None:
        lacking.append("g++")
    return [f"{item}, for FlashInfer" for item in lacking]


def _cpu(context: Context) -> Result:
    if all(context.server_args(v).get("enforce-eager") is True for v in context.variants):
        return skipped("nothing is compiled: no GPU, and enforce-eager for all variants")
    if context.found.environment["cxx"] is None:
        return fail(
            "no g++: torch.compile needs it on a CPU",
            "install g++ (build-essential), or enforce-eager: true for all variants",
        )
    return ok(f"{context.found.environment['cxx']}")
