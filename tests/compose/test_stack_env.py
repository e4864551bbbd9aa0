"""``make env`` and ``make pin``."""

from pathlib import Path

import pytest

from specgauge.errors import UsageError
from specgauge.stack.env import prepare, project_name, put, read
from specgauge.stack.pin import pin

CARDS = (
    '{"gpus": [{"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0"},'
    ' {"uuid": "GPU-m", "pci_bus_id": "00000000:42:00.0", "mig": true, "mig_uuids": ["MIG-1"]}]}'
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "SPECGAUGE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "specgauge"
    root.mkdir()
    (root / ".env").write_text(f"# mine\nLOCK_FOLDER={tmp_path}/locks\n")
    return root


def test_two_checkouts_of_one_name_and_two_users_are_different_projects(tmp_path: Path) -> None:
    names = {
        project_name(user, tmp_path / where / "specgauge")
        for user in ("ann", "bob")
        for where in ("one", "two")
    }
    assert len(names) == 4
    assert project_name("Ann.Smith", tmp_path).startswith("specgauge-annsmith-")


def test_env_is_completed_never_changed(checkout: Path) -> None:
    put(checkout / ".env", {"SPECGAUGE_UID": "4711"})
    prepare(checkout, rootless=False)
    text = (checkout / ".env").read_text()
    prepare(checkout, rootless=True)
    assert (checkout / ".env").read_text() == text
    assert text.startswith("# mine\n")
    assert read(checkout / ".env")["SPECGAUGE_UID"] == "4711"


def test_folders_exist_before_the_engine_would_make_them_as_root(checkout: Path) -> None:
    values = prepare(checkout, rootless=False)
    for name in ("results", "models", ".stack/control", ".stack/cache", ".stack/prometheus"):
        assert (checkout / name).is_dir()
    assert Path(values["HF_CACHE"]).is_dir()
    assert Path(values["LOCK_FOLDER"]).stat().st_mode & 0o7777 == 0o1777


def test_rootless_engines_root_is_the_user(checkout: Path) -> None:
    values = prepare(checkout, rootless=True)
    assert (values["SPECGAUGE_UID"], values["SPECGAUGE_GID"]) == ("0", "0")


def test_comments_and_quotes(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1  # one\n#B=2\nC='x y'\n\n")
    assert read(tmp_path / ".env") == {"A": "1", "C": "x y"}


def test_pin_writes_both(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", CARDS)
    pin(checkout, "41:00.0", None)
    values = read(checkout / ".env")
    assert (values["GPU_UUID"], values["GPU_PCI_BUS_ID"]) == ("GPU-a", "00000000:41:00.0")
    pin(checkout, None, "MIG-1")
    values = read(checkout / ".env")
    assert (values["GPU_UUID"], values["GPU_PCI_BUS_ID"]) == ("MIG-1", "00000000:42:00.0")


@pytest.mark.parametrize(
    ("bus_id", "uuid", "message"),
    [
        ("00:00.0", None, "Present are"),
        ("42:00.0", None, "MIG mode"),
        (None, "GPU-a", "by its PCI bus ID"),
        (None, None, "GPU-a"),
        ("41:00.0", "MIG-1", "not both"),
    ],
)
def test_pin_refuses(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    bus_id: str | None,
    uuid: str | None,
    message: str,
) -> None:
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", CARDS)
    with pytest.raises(UsageError, match=message):
        pin(checkout, bus_id, uuid)
    assert "GPU_UUID" not in read(checkout / ".env")
