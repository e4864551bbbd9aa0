"""Names that become folders: nothing that leaves the project or meets a folder of ours."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from specgauge.config.base import StrictModel, find_named
from specgauge.config.experiment import Experiment
from specgauge.config.model import Model
from specgauge.config.names import require_plain
from specgauge.config.variant import Variant
from specgauge.config.workload import Workload
from specgauge.errors import UsageError

BAD = [
    *["", ".", "..", "../../../escaped", "a/b", "/tmp/x", "a\\b", "latest", "analysis"],
    *["a b", "a\n", "a\0", ".hidden", "--flag", "[/x]", "x" * 101, "größe"],
]
REQUIRED: dict[type[StrictModel], dict[str, object]] = {
    Experiment: {
        "model": "m",
        "variants": ["v"],
        "loads": [{"concurrency": 1, "requests": 1}],
    },
    Model: {"path": "a/b"},
    Variant: {},
    Workload: {"path": "w.jsonl"},
}


@pytest.mark.parametrize("kind", REQUIRED)
@pytest.mark.parametrize("name", BAD)
def test_no_document_is_called_so(kind: type[StrictModel], name: str) -> None:
    with pytest.raises(ValidationError, match=r"name"):
        kind.model_validate({**REQUIRED[kind], "name": name})


@pytest.mark.parametrize("kind", REQUIRED)
@pytest.mark.parametrize("name", ["ngram_improved", "Qwen3-32B", "smollm2-135m", "v1.0", "_x", "7"])
def test_plain_names_are_taken(kind: type[StrictModel], name: str) -> None:
    assert kind.model_validate({**REQUIRED[kind], "name": name}).name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", BAD)
def test_no_file_is_looked_for_by_such_a_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "b.yaml").write_text("")
    with pytest.raises(UsageError, match="no variant can be called so"):
        find_named(tmp_path, "variant", name)
    with pytest.raises(UsageError, match=r"^--run: "):
        require_plain(name, "--run")


@pytest.mark.parametrize("k", ["four", [3], 0, -1, 2.5, True, "4"])
def test_k_is_a_whole_number(k: object) -> None:
    config = {"method": "ngram", "num_speculative_tokens": k}
    with pytest.raises(ValidationError, match="'num_speculative_tokens' must be a whole number"):
        Variant.model_validate({"name": "v", "speculative_config": config})
