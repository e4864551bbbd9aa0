"""Where a model is: a folder of the project, a folder anywhere, or a name on the hub."""

from pathlib import Path

import pytest
import yaml

from specgauge.config.project import Project
from specgauge.config.resolve import Resolved, resolve
from specgauge.errors import EnvironmentFault
from specgauge.run.command import model_folder
from specgauge.stack.fetches import words


def resolved(root: Path, path: str, drafter: str) -> tuple[Resolved, Project]:
    documents = {
        "experiments/e": {
            "model": "m",
            "variants": ["vanilla", "eagle3"],
            "loads": [{"concurrency": 1, "requests": 1}],
            "workload": "w",
            "output_tokens": 4,
        },
        "models/m": {"name": "m", "path": path, "drafters": {"eagle3": drafter}},
        "workloads/w": {"name": "w", "path": "w.jsonl", "format": "jsonl"},
        "variants/vanilla": {"name": "vanilla"},
        "variants/eagle3": {
            "name": "eagle3",
            "drafter": "eagle3",
            "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3},
        },
    }
    for name, value in documents.items():
        file = root / "config" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(value))
    (root / "config/workloads/w.jsonl").write_text('{"prompt": "one"}\n')
    project = Project(root)
    return resolve(project, "e"), project


def test_a_folder_anywhere_is_served_and_not_fetched(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    drafter = tmp_path / "drafter"
    drafter.mkdir()
    found, project = resolved(tmp_path / "p", str(elsewhere), str(drafter))
    assert model_folder(found, project) == str(elsewhere)
    assert words(found, project) == []


def test_a_folder_of_the_project_is_made_absolute(tmp_path: Path) -> None:
    found, project = resolved(tmp_path, "models/m", "hub/drafter")
    (tmp_path / "models" / "m").mkdir(parents=True)
    assert model_folder(found, project) == str(tmp_path / "models/m")
    assert words(found, project) == ["hub/drafter"]


@pytest.mark.parametrize("path", ["./nowhere", "/nowhere/at/all", "~/nowhere-at-all"])
def test_a_folder_that_is_not_there_is_said(tmp_path: Path, path: str) -> None:
    found, project = resolved(tmp_path, path, "hub/drafter")
    with pytest.raises(EnvironmentFault, match=f"model folder {path} does not exist"):
        model_folder(found, project)


def test_a_hub_name_stays_one(tmp_path: Path) -> None:
    found, project = resolved(tmp_path, "hub/model", "hub/drafter")
    assert model_folder(found, project) == "hub/model"
    assert words(found, project) == ["hub/model", "hub/drafter"]
