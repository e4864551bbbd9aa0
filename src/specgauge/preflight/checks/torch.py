"""torch: built for this GPU, and a real product of matrices on it."""

from __future__ import annotations

from specgauge.preflight.arches import kernels_for
from specgauge.preflight.context import Context
from specgauge.preflight.probe import ask
from specgauge.preflight.result import Result, fail, ok, skipped, warn

IMPORT_LIMIT_S = 120.0
"""Importing torch takes two seconds, on a cold network disk a minute."""
MATMUL_LIMIT_S = 180.0
"""Beside the import: a CUDA context, and PTX that the driver may have to compile."""

_ANOTHER_BUILD = (
    "install the torch that fits driver and GPU: uv pip install vllm --torch-backend=auto; for a "
    "GPU newer than the release: PyTorch's nightly build"
)


def build(context: Context) -> Result:
    """Its architectures contain this GPU's."""
    python = context.found.python
    if python is None:
        return skipped("the server's Python is not known")
    if "torch" not in context.found.environment.get("packages", {"torch": ""}):
        return skipped("the server's environment has no torch")
    answer = ask(python, "torch_build", context.server_env(), IMPORT_LIMIT_S)
    if answer.value is None:
        return fail(f"torch cannot be imported: {answer.said}", "install vLLM and torch again")
    told = answer.value
    built = f"torch {told['version']}"
    if context.cpu:
        return ok(f"{built} can be imported")
    if told["cuda"] is None:
        return fail(f"{built} is a build without CUDA", _ANOTHER_BUILD)
    built += f", CUDA {told['cuda']}"
    if told["error"] is not None:
        return fail(
            f"{built} cannot use the GPU: {told['error']}",
            "a driver older than this CUDA needs an update, or an older build of torch: "
            f"{_ANOTHER_BUILD}",
        )
    if told["devices"] != 1:
        return fail(
            f"CUDA sees {told['devices']} GPUs where one was named by its UUID",
            "is CUDA_VISIBLE_DEVICES set for the server elsewhere ('env:', 'server_env:')?",
        )
    major, minor = told["capability"]
    own = f"sm_{major}{minor}"
    listed = " ".join(told["arch_list"])
    how, entry = kernels_for((major, minor), told["arch_list"])
    if how == "none":
        return fail(f"{built} has no kernels for {own} ({told['name']}): {listed}", _ANOTHER_BUILD)
    if how == "ptx":
        return warn(
            f"{built} has only {entry} for {own}: the driver compiles it at first use: {listed}",
            _ANOTHER_BUILD,
        )
    via = "" if how == "exact" else f" by {entry}"
    return ok(f"{built} has kernels for {own}{via}")


def matmul(context: Context) -> Result:
    """An import proves nothing: a kernel is launched, and its result looked at."""
    if context.cpu:
        return skipped("no GPU takes part")
    if context.found.python is None:
        return skipped("the server's Python is not known")
    answer = ask(context.found.python, "matmul", context.server_env(), MATMUL_LIMIT_S)
    if answer.value is None:
        remedy = "dmesg | grep -i xid tells of a broken card; ask who runs the node"
        return fail(f"the GPU did not answer: {answer.said}", remedy)
    if (error := answer.value["error"]) is not None:
        remedy = _ANOTHER_BUILD if "no kernel image" in error else "see CUDA's message"
        return fail(f"a product of matrices fails: {error}", remedy)
    if not answer.value["right"]:
        return fail("a product of matrices came out wrong", "do not use this card: tell its owner")
    gpu, uuid = context.found.gpu, answer.value["uuid"]
    # (Of a MIG instance CUDA tells the card's UUID.)
    if gpu is not None and not gpu.device.is_instance and _another(uuid, gpu.device.uuid):
        return fail(
            f"it ran on {uuid}, not on {gpu.device.uuid}",
            "something moves CUDA_VISIBLE_DEVICES: look at 'env:' and 'server_env:'",
        )
    return ok("2048 x 2048 in bfloat16, right")


def _another(seen: str | None, wanted: str) -> bool:
    """Two UUIDs differ; torch leaves the prefix ``GPU-`` out, older releases tell none."""
    return seen is not None and seen.removeprefix("GPU-") != wanted.removeprefix("GPU-")
