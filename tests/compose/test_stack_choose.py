"""Which way a run goes; what a missing engine says; which run is analysed."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.errors import DockerException

from specgauge.config.model import Model
from specgauge.errors import EnvironmentFault, UsageError
from specgauge.serve.control import Control
from specgauge.stack import choose as choosing
from specgauge.stack.analysis import NothingMeasured, which
from specgauge.stack.choose import choose
from specgauge.stack.engine import Engine, Seen, strangers
from specgauge.stack.env import put


class FakeEngine:
    support: str | None = "the nvidia runtime"
    images: frozenset[str] | None = None
    """None: all of them."""

    def gpu_support(self) -> str | None:
        return self.support

    def has_image(self, name: str) -> bool:
        return self.images is None or name in self.images

    def words(self) -> str:
        return "Docker 99"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    class Made(FakeEngine):
        pass

    monkeypatch.setattr(choosing, "Engine", Made)
    return Made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / ".env", {"SPECGAUGE_PROJECT": "p", "GPU_UUID": "GPU-a"})
    return tmp_path


def model(platform: str) -> Model:
    return Model(name="m", path="org/m", platform=platform)


def test_ready_stack_is_taken_and_named(root: Path, engine: type[FakeEngine]) -> None:
    stack, reason = choose("auto", root, model("cuda"))
    assert stack is not None
    assert not stack.cpu
    assert "GPU-a" in reason
    cpu, reason = choose("auto", root, model("cpu"))
    assert cpu is not None
    assert cpu.files[-1].endswith("compose.cpu.yaml")
    assert "on the CPU" in reason


def test_process_asks_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "Engine", None)
    assert choose("process", tmp_path, model("cpu"))[0] is None


@pytest.mark.parametrize(
    ("change", "platform", "remedy"),
    [
        ({"support": None}, "cuda", "container toolkit"),
        ({"images": frozenset()}, "cuda", "make build'"),
        ({"images": frozenset()}, "cpu", "make build CPU=1'"),
        ({"images": frozenset({"p-vllm:0.32.0", "p-loadgen"})}, "cuda", "analysis"),
    ],
)
def test_unfit_stack(
    root: Path,
    engine: type[FakeEngine],
    change: dict[str, object],
    platform: str,
    remedy: str,
) -> None:
    for name, value in change.items():
        setattr(engine, name, value)
    with pytest.raises(EnvironmentFault, match=remedy):
        choose("compose", root, model(platform))
    stack, reason = choose("auto", root, model(platform))
    assert stack is None
    assert remedy in reason + "'"


def test_unpinned_gpu_and_missing_env(
    root: Path, engine: type[FakeEngine], tmp_path_factory: pytest.TempPathFactory
) -> None:
    put(root / ".env", {"GPU_UUID": ""})
    with pytest.raises(EnvironmentFault, match="make pin"):
        choose("compose", root, model("cuda"))
    with pytest.raises(EnvironmentFault, match="make env"):
        choose("compose", tmp_path_factory.mktemp("bare"), model("cpu"))


def test_model_for_any_platform_uses_a_gpu_only_if_one_is_there(
    root: Path, engine: type[FakeEngine]
) -> None:
    with_gpu, _ = choose("auto", root, model("any"))
    engine.support = None
    without, _ = choose("auto", root, model("any"))
    assert with_gpu is not None
    assert without is not None
    assert (with_gpu.cpu, without.cpu) == (False, True)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("('Connection aborted.', PermissionError(13, 'Permission denied'))", "group 'docker'"),
        ("('Connection aborted.', FileNotFoundError(2, 'No such file'))", "no Docker engine"),
        ("('Connection aborted.', ConnectionRefusedError(111, 'refused'))", "is not running"),
        ("500 Server Error", "500 Server Error"),
    ],
)
def test_engine_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, text: str, remedy: str
) -> None:
    def refuse(**words: object) -> None:
        raise DockerException(f"Error while fetching server API version: {text}")

    monkeypatch.setattr("specgauge.stack.engine.docker.from_env", refuse)
    with pytest.raises(EnvironmentFault, match=remedy):
        Engine()


def test_strangers_are_of_another_folder(tmp_path: Path) -> None:
    def seen(folder: str) -> Seen:
        return Seen("vllm-ngram", "p-vllm-ngram-1", folder, True, 0, False, None)

    mine, other, unknown = seen(str(tmp_path)), seen("/elsewhere"), seen("")
    assert strangers([mine, other, unknown], tmp_path) == [other]


def run_folder(results: Path, name: str) -> None:
    folder = results / "quick" / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")


def test_analysis_takes_the_newest_load_generator_s_run(tmp_path: Path) -> None:
    results, control = tmp_path / "results", tmp_path / "control"
    control.mkdir()
    for name in ("one", "two", "three"):
        run_folder(results, name)
    with pytest.raises(UsageError, match="no load generator"):
        which(results, None, control)
    Control(control / "vanilla").report("quick/one")
    Control(control / "ngram").report("quick/two")
    assert which(results, None, control).folder.name == "two"
    assert which(results, "quick/three", control).folder.name == "three"


def test_analysis_follows_a_named_run_that_was_begun_anew(tmp_path: Path) -> None:
    results, control = tmp_path / "results", tmp_path / "control"
    control.mkdir()
    for name in ("mine", "mine-eager", "other"):
        run_folder(results, name)
    assert which(results, "mine", control).folder.name == "mine"
    Control(control / "ngram").report("quick/mine-eager", instead_of="mine")
    assert which(results, "mine", control).folder.name == "mine-eager"
    assert which(results, "quick/mine", control).folder.name == "mine"
    assert which(results, "other", control).folder.name == "other"
    Control(control / "ngram").report("quick/other")
    assert which(results, "mine", control).folder.name == "mine"


def test_analysis_never_falls_back_to_an_older_run(tmp_path: Path) -> None:
    results, control = tmp_path / "results", tmp_path / "control"
    run_folder(results, "one")
    Control(control / "ngram").report("quick/one")
    Control(control / "ngram").report(None, "the GPU is in use", 5)
    with pytest.raises(NothingMeasured, match="the GPU is in use") as caught:
        which(results, None, control)
    assert caught.value.code == 5
