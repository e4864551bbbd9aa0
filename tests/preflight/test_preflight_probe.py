"""Questions to another Python: bounded, clean, and nothing of it left."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from specgauge.preflight import probe
from specgauge.preflight.probe import ask, bounded, source
from specgauge.serve.interpreter import python_of


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_hung_program_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_GRACE_S", 0.3)
    noted = tmp_path / "pids"
    hung = script(
        tmp_path / "hung",
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(noted)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('so far', flush=True)\n"
        "time.sleep(600)",
    )
    _, out, _, late = bounded([hung], os.environ, 3.0)
    assert late
    assert out == "so far\n"
    deadline = time.monotonic() + 10
    pids = [int(word) for word in noted.read_text().split()]

    def lives(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    while any(map(lives, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, pids))


def test_no_answer_in_time_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_GRACE_S", 0.3)
    hung = script(tmp_path / "hung", "import time; time.sleep(600)")
    answer = ask([hung], "matmul", os.environ, 0.5)
    assert answer.timed_out
    assert answer.value is None
    assert "no answer within" in answer.said


def test_answer_among_a_library_s_noise(tmp_path: Path) -> None:
    loud = script(tmp_path / "loud", "print('hello'); print('SPECGAUGE {\"a\": 1}'); print('bye')")
    assert ask([loud], "matmul", os.environ, 60).value == {"a": 1}


def test_death_is_told_without_secrets(tmp_path: Path) -> None:
    dead = script(
        tmp_path / "dead",
        "import os, sys; sys.exit('no luck with ' + os.environ['HF_TOKEN'])",
    )
    answer = ask([dead], "hub", {**os.environ, "HF_TOKEN": "hf_verysecret"}, 60)
    assert answer.value is None
    assert "no luck with ***" in answer.said
    assert "verysecret" not in answer.said


def test_no_such_program(tmp_path: Path) -> None:
    answer = ask([str(tmp_path / "none" / "python")], "matmul", os.environ, 5)
    assert answer.value is None
    assert "No such file" in answer.said


def test_question_and_lines_on_the_way(tmp_path: Path) -> None:
    echo = script(
        tmp_path / "echo",
        "import json, sys\n"
        "q = json.load(sys.stdin)\n"
        "sys.stderr.write('10%\\r20%\\r30%\\n'); sys.stderr.flush()\n"
        "print('SPECGAUGE ' + json.dumps(q))",
    )
    seen: list[str] = []
    answer = ask([echo], "fetch", os.environ, None, {"names": [["a", None]]}, seen.append)
    assert answer.value == {"names": [["a", None]]}
    assert seen == ["10%", "20%", "30%"]


def test_answer_to_a_question_that_was_not_read(tmp_path: Path) -> None:
    deaf = script(tmp_path / "deaf", "print('SPECGAUGE 1')")
    question = "?" * 2**20  # more than a pipe holds
    assert ask([deaf], "fetch", os.environ, None, question, lambda line: None).value == 1


def test_lines_do_not_wait_for_a_long_answer(tmp_path: Path) -> None:
    long = script(tmp_path / "long", "import sys; print('SPECGAUGE [' + '1, ' * 10**5 + '1]'); "
                  "print('told', file=sys.stderr)")  # fmt: skip
    seen: list[str] = []
    answer = ask([long], "fetch", os.environ, 60, None, seen.append)
    assert len(answer.value) == 10**5 + 1
    assert seen == ["told"]


def test_limit_holds_where_lines_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_GRACE_S", 0.3)
    hung = tmp_path / "hung"
    hung.write_text("#!/bin/sh\necho begun >&2\nexec sleep 600\n")
    hung.chmod(0o755)
    seen: list[str] = []
    answer = ask([str(hung)], "fetch", os.environ, 3.0, None, seen.append)
    assert answer.timed_out
    assert seen == ["begun"]
    assert answer.said == "no answer within 3 s: begun"


def test_environment_program_runs_on_this_python_too() -> None:
    answer = ask([sys.executable], "environment", os.environ, 60)
    assert answer.value is not None
    assert answer.value["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")
    assert (answer.value["array_subscript"] is None) == (sys.version_info >= (3, 12))


@pytest.mark.parametrize(
    ("comm", "trap"),
    [
        ("import array\ndef f() -> array.array[int]: ...\n", "flashinfer/comm/fd_exchange.py"),
        (
            "from __future__ import annotations\nimport array\ndef f() -> array.array[int]: ...",
            None,
        ),
        ("import array  # array.array[int] needs 3.12\n", None),
    ],
)
def test_annotation_that_is_evaluated_is_found(tmp_path: Path, comm: str, trap: str | None) -> None:
    folder = tmp_path / "flashinfer" / "comm"
    folder.mkdir(parents=True)
    (tmp_path / "flashinfer" / "__init__.py").write_text("raise SystemExit('never imported')")
    (folder / "fd_exchange.py").write_text(comm)
    answer = ask([sys.executable], "environment", {**os.environ, "PYTHONPATH": str(tmp_path)}, 60)
    assert answer.value is not None
    assert answer.value["evaluates_array_subscript"] == trap


@pytest.mark.parametrize(
    ("first", "python"),
    [
        ("#!/venv/bin/python3.12\n", "/venv/bin/python3.12"),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python\" \"$0\" \"$@\"\n' '''\n", "/a b/bin/python"),
        ("#!/bin/sh\nexec vllm\n", None),
        ("\x7fELF", None),
    ],
)
def test_python_behind_a_program(tmp_path: Path, first: str, python: str | None) -> None:
    (tmp_path / "vllm").write_text(first)
    assert python_of(str(tmp_path / "vllm")) == python


def test_python_itself_and_nothing() -> None:
    assert python_of("/x/bin/python3.12") == "/x/bin/python3.12"
    assert python_of("/nowhere/vllm") is None


@pytest.mark.parametrize("name", ["environment", "torch_build", "matmul", "hub", "fetch", "serve"])
def test_programs_need_nothing_of_ours(name: str) -> None:
    text = source(name)
    assert "import specgauge" not in text
    assert "from specgauge" not in text
    compile(text, name, "exec")
