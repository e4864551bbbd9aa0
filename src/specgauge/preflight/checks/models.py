"""The models: here already, or the hub is reachable and may give them; the fetch itself."""

from __future__ import annotations

import dataclasses

from specgauge.config.resolve import place
from specgauge.embedded import catalogue
from specgauge.embedded.model import is_whole
from specgauge.preflight.context import Context, gib
from specgauge.preflight.model_files import ModelFiles, is_hub_name, look, offline
from specgauge.preflight.probe import ask
from specgauge.preflight.result import Result, fail, ok, skipped, warn

HUB_LIMIT_S = 90.0
"""For all models together; the hub library itself tries again a few times."""
_SAFETENSORS, _OTHER_WEIGHTS = ".safetensors", (".bin", ".pt", ".pth")
_FORBIDDEN = ("GatedRepoError", "401", "403", "Unauthorized", "Forbidden")


def names(context: Context) -> dict[str, str | None]:
    """The target and the drafters of the variants → revision; folders as absolute paths."""
    resolved, project = context.resolved, context.project
    model = resolved.model
    found: dict[str, str | None] = {}
    if model.path is not None:
        found[place(model.path, project)] = model.revision
    for name in context.variants:
        config = resolved.speculative_config(resolved.variants[name], project) or {}
        if isinstance(drafter := config.get("model"), str):
            found.setdefault(place(drafter, project), config.get("revision"))
    return found


def weights(context: Context) -> Result:
    """Every file here, or the hub reachable and willing; config.json is brought for ``memory``."""
    env = context.server_env()
    model = context.resolved.model
    said = []
    if model.embedded is not None:
        entry = catalogue.find(model.embedded)
        folder = context.model_cache() / "models" / entry.folder
        if not is_whole(entry, folder):
            remedy = "make fetch CPU=1" if context.compose else "make setup"
            return fail(f"the embedded model {entry.name} is not made yet", remedy)
        context.found.files[model.name] = look(str(folder), None, folder)
        said.append(f"{model.name} in {folder}")
    cache = context.hub_cache()
    wanted = names(context)
    for name, revision in wanted.items():
        context.found.files[name] = look(name, revision, cache)
    absent = [files for files in context.found.files.values() if not _usable(files, context)]
    said += [
        f"{_shown(files)} ({gib(files.size)})"
        for files in context.found.files.values()
        if files not in absent and files.name in wanted
    ]
    if not absent:
        return ok(f"here: {', '.join(said)}")
    for files in absent:
        if not is_hub_name(files.name):
            lacks = ", ".join(files.missing[:3]) or "config.json"
            return fail(f"{files.name}: not there, or not whole: {lacks} is missing", _fix(context))
    if context.compose and not context.fetch:
        return fail(
            f"not in the mounted cache: {', '.join(f.name for f in absent)}",
            "make fetch (the containers themselves may not ask the hub)",
        )
    if (variable := offline(env)) is not None:
        return fail(
            f"{variable} is set, and not here: {', '.join(f.name for f in absent)} "
            f"(looked in {cache})",
            f"unset {variable} to fetch them, or copy them into {cache}",
        )
    return _ask_hub(context, absent, wanted, env)


def _shown(files: ModelFiles) -> str:
    """Its name, and where it is if that says more."""
    return files.name if files.name == str(files.folder) else f"{files.name} in {files.folder}"


def _ask_hub(
    context: Context,
    absent: list[ModelFiles],
    wanted: dict[str, str | None],
    env: dict[str, str],
) -> Result:
    python = context.found.python
    if python is None:
        return skipped("the server's Python, which has the hub's library, is not known")
    question = {"names": [[files.name, wanted[files.name]] for files in absent]}
    answer = ask(python, "hub", env, HUB_LIMIT_S, question)
    endpoint = env.get("HF_ENDPOINT", "https://huggingface.co")
    if answer.value is None:
        return fail(
            f"the hub at {endpoint} could not be asked: {answer.said}",
            "is there a way to the internet from here (HTTPS_PROXY)? Else copy the models by hand",
        )
    for files, told in zip(absent, answer.value, strict=True):
        if told["error"] is not None:
            return _refused(files.name, told["kind"], told["error"], endpoint)
        total = read_bytes(told["files"])
        context.found.files[files.name] = dataclasses.replace(
            files, config=told["config"] or files.config, indexed=total, on_hub=total
        )
    listed = ", ".join(
        f"{files.name} ({gib(context.found.files[files.name].on_hub)})" for files in absent
    )
    text = f"{endpoint} may give {listed}"
    if context.fetch:
        return ok(text + ": fetched at the end")
    return warn(
        text + "; not here yet",
        "the same command with --fetch brings it after all other checks; without it the first "
        "start of the server does, while a run waits",
    )


def read_bytes(files: dict[str, int]) -> int:
    """Bytes of the weights that vLLM reads of a model with these ``files`` (name → size): those in
    safetensors if there are any, without other packings of the same (inside/fetch.py)."""
    plain = {f: n for f, n in files.items() if not f.startswith(("original/", "consolidated"))}
    safe = sum(size for file, size in plain.items() if file.endswith(_SAFETENSORS))
    return safe or sum(size for file, size in plain.items() if file.endswith(_OTHER_WEIGHTS))


def _refused(name: str, kind: str, error: str, endpoint: str) -> Result:
    said = f"{name}: {kind}: {error}"
    if kind == "RepositoryNotFoundError":
        return fail(
            said,
            "is the name right ('path:', 'drafters:' in the model's file)? A private model is "
            "hidden from those who are not logged in: hf auth login",
        )
    if any(word in f"{kind} {error}" for word in _FORBIDDEN):
        return fail(
            said,
            f"ask for access on {endpoint}/{name}, then hf auth login (or HF_TOKEN in the "
            "environment)",
        )
    if kind == "RevisionNotFoundError":
        return fail(said, "'revision:' in the model's file names none that is there")
    return fail(
        said,
        "is there a way to the internet from here (HTTPS_PROXY, HF_ENDPOINT)? Else copy the "
        "model into the cache by hand",
    )


def _usable(files: ModelFiles, context: Context) -> bool:
    dummy = context.server_args(context.variants[0]).get("load-format") == "dummy"
    return files.complete or (dummy and files.config is not None)


def _fix(context: Context) -> str:
    return f"see 'path:' and 'drafters:' of model {context.resolved.model.name!r}"


def fetch(context: Context) -> Result:
    """The big download, last of all; a second call goes on where the first one stopped."""
    absent = [files for files in context.found.files.values() if not _usable(files, context)]
    if not absent:
        return skipped("everything is here")
    if not context.fetch:
        return skipped("not asked for (--fetch)")
    python = context.found.python
    if context.compose or python is None:
        return fail("the containers fetch by themselves", "make fetch")
    wanted = names(context)
    env = context.server_env()
    question = {"names": [[files.name, wanted[files.name]] for files in absent]}
    answer = ask(python, "fetch", env, None, question, context.say)
    if answer.value is None or answer.value["error"] is not None:
        why = answer.said if answer.value is None else answer.value["error"]
        return fail(f"the fetch stopped: {why}", "the same command goes on where it stopped")
    cache = context.hub_cache()
    for name, revision in wanted.items():
        context.found.files[name] = look(name, revision, cache)
        if not _usable(context.found.files[name], context):
            missing = ", ".join(context.found.files[name].missing[:3])
            return fail(f"{name} is not whole after the fetch: {missing}", "fetch again")
    return ok(f"fetched {', '.join(files.name for files in absent)} into {cache}")
