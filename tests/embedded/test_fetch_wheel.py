"""Fetching by hash, with a fake pip that copies a file and counts its calls."""

import hashlib
import sys

import pytest

from specgauge.embedded.fetch import fetch_wheel
from specgauge.errors import EnvironmentFault

WHEEL = "tiny-1.0-py3-none-any.whl"
CONTENT = b"the published bytes"
SHA = hashlib.sha256(CONTENT).hexdigest()

FAKE_PIP = """
import pathlib, sys
here = pathlib.Path({here!r})
with (here / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
source = here / "published"
print("WARNING: Location 'file:///nowhere/' is ignored: it is neither a file nor a directory.")
if not source.exists():
    print("ERROR: No matching distribution found for tiny==1.0", file=sys.stderr)
    sys.exit(1)
to = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
(to / {wheel!r}).write_bytes(source.read_bytes())
"""


@pytest.fixture
def shop(tmp_path):
    """A folder with a fake pip, what it sells ('published'), and the list of its calls."""
    (tmp_path / "fake_pip.py").write_text(FAKE_PIP.format(here=str(tmp_path), wheel=WHEEL))
    (tmp_path / "published").write_bytes(CONTENT)
    return tmp_path


def fetch(shop, said=None):
    pip = (sys.executable, str(shop / "fake_pip.py"))
    say = (said if said is not None else []).append
    return fetch_wheel("tiny==1.0", WHEEL, SHA, shop / "cache", say, pip=pip)


def calls(shop):
    file = shop / "calls"
    return file.read_text().splitlines() if file.exists() else []


def test_fetched_once_and_never_again(shop):
    first = fetch(shop)
    assert first.read_bytes() == CONTENT
    (shop / "published").unlink()  # no network any more
    assert fetch(shop) == first
    assert len(calls(shop)) == 1
    assert "--no-deps" in calls(shop)[0]
    assert [p.name for p in (shop / "cache").iterdir()] == [WHEEL]


def test_a_damaged_file_is_fetched_again(shop):
    fetch(shop).write_bytes(CONTENT[:5])
    said = []
    assert fetch(shop, said).read_bytes() == CONTENT
    assert any("damaged" in text for text in said)
    assert len(calls(shop)) == 2


def test_other_bytes_than_meant_are_refused_and_not_kept(shop):
    (shop / "published").write_bytes(b"something else")
    with pytest.raises(EnvironmentFault, match=r"SHA-256 .* expected " + SHA):
        fetch(shop)
    assert list((shop / "cache").iterdir()) == []


def test_without_network_one_clear_message(shop):
    (shop / "published").unlink()
    with pytest.raises(EnvironmentFault) as fault:
        fetch(shop)
    message = str(fault.value)
    assert "pip could not fetch it" in message
    assert "No matching distribution" in message
    assert "Location" not in message
    assert list((shop / "cache").iterdir()) == []
