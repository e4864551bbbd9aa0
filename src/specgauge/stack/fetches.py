"""Which models an experiment needs: the words for ``images/vllm/fetch.py``."""

from __future__ import annotations

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, is_folder, place


def words(resolved: Resolved, project: Project) -> list[str]:
    """The target and the drafters of the experiment's variants, folders left out."""
    model = resolved.model
    if model.embedded is not None:
        return ["--embedded", model.embedded]
    assert model.path is not None
    names = [model.path]
    names += [model.drafters[v.drafter] for v in resolved.variants.values() if v.drafter]
    hub = [n for n in dict.fromkeys(names) if not is_folder(place(n, project))]
    revision = {model.path: model.revision}
    return [f"{name}@{revision[name]}" if revision.get(name) else name for name in hub]
