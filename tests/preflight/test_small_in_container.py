"""The small model's server in the stack: what its container is asked, and what is told of it.

The container is this machine's own Python, or one that answers as planted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from planted import Machine

from specgauge.config.model import Model
from specgauge.embedded import catalogue
from specgauge.errors import EnvironmentFault
from specgauge.preflight.checks import smoke
from specgauge.preflight.containers import Containers
from specgauge.preflight.context import Context
from specgauge.preflight.probe import ask
from specgauge.preflight.small import container
from specgauge.preflight.small.answer import TOKENS
from specgauge.stack.choose import Stack
from specgauge.stack.env import put

STREAM = "".join(
    f"data: {json.dumps({'choices': [{'token_ids': [i, i]}]})}\n\n" for i in range(TOKENS // 2)
)
METRICS = (
    "# TYPE vllm:generation_tokens_total counter\n"
    f"vllm:generation_tokens_total {TOKENS}\n"
    "# TYPE vllm:spec_decode_num_drafts_total counter\n"
    "vllm:spec_decode_num_drafts_total 7\n"
)
WELL: dict[str, Any] = {
    "ready_s": 12.3, "exit_code": None, "failed": None, "status": 200,
    "answer": STREAM, "metrics": METRICS, "log": ["Application startup complete."],
}  # fmt: skip
DEAD = WELL | {"ready_s": None, "exit_code": 1, "status": None, "answer": "", "metrics": ""}


def in_stack(machine: Machine, python: list[str] | None = None, cpu: bool = True) -> Context:
    """A context of the stack whose vLLM image holds ``python``."""
    (machine.root / "models" / "tiny").mkdir(parents=True, exist_ok=True)
    machine.write("models", "small", {"path": "models/tiny"})
    machine.experiment["server"] = {"env": {"API_TOKEN": "planted-token-4711"}}
    context = machine.context(way="compose", smoke_model="small")
    stack = Stack(machine.root, "p", {"VLLM_IMAGE": "p-vllm"}, cpu, None)  # type: ignore[arg-type]
    context.found.containers = Containers(stack, machine.root)
    context.found.containers.python = python or [str(machine.python())]
    context.found.program = ["vllm", "serve"]
    return context


def test_all_is_well_names_the_image(machine: Machine) -> None:
    machine.answers["serve"] = WELL
    result = smoke.smoke(in_stack(machine))
    assert result.status == "ok"
    assert "in a container of p-vllm: ready in 12 s" in result.seen


@pytest.mark.parametrize(
    ("told", "status", "words", "remedy"),
    [
        ({"answer": ""}, "fail", f"asked for {TOKENS} tokens, the stream holds 0", "token ids"),
        ({"status": 500, "answer": "oh"}, "fail", "answers 500: oh", "release"),
        ({"metrics": METRICS.replace(" 7\n", " 0\n")}, "warn", "not one draft", "speculative"),
        ({"failed": "timed out"}, "fail", "does not answer: timed out", "log"),
        (
            {"failed": "reset", "exit_code": -11, "log": ["bang"]},
            "fail",
            "ended while it was asked: ended by signal SIGSEGV. Its last lines:\n  | bang",
            "last lines",
        ),
        (DEAD | {"log": []}, "fail", "before it was ready: exit code 1. It printed nothing", "l"),
        (
            DEAD | {"log": ["CUDA error: operation failed due to a previous error during capture"]},
            "fail",
            "Capturing CUDA graphs failed.\nthe server ended before it was ready",
            "eager_for_all",
        ),
        (DEAD | {"exit_code": None}, "fail", "not ready within 600 s", "last lines"),
        (DEAD | {"failed": "cannot start vllm: No such file"}, "fail", "cannot start vllm", "l"),
    ],
)
def test_what_is_wrong_is_told_as_in_the_process_way(
    machine: Machine, told: dict[str, Any], status: str, words: str, remedy: str
) -> None:
    machine.answers["serve"] = WELL | told
    result = smoke.smoke(in_stack(machine))
    assert result.status == status
    assert words in result.seen
    assert remedy in (result.remedy or "")


def test_container_that_does_not_run_is_named(machine: Machine) -> None:
    refusing = "import sys; sys.exit('could not select device driver \"nvidia\"')"
    result = smoke.smoke(in_stack(machine, [sys.executable, "-c", refusing]))
    assert result.status == "fail"
    assert 'p-vllm ran to its end: could not select device driver "nvidia"' in result.seen
    assert "docs/compose.md" in (result.remedy or "")


def test_container_that_hangs_has_a_limit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_LIMIT_S", "ENGINE_LIMIT_S"):
        monkeypatch.setattr(container, name, 0.0)
    monkeypatch.setattr(container, "ready_limit_s", lambda context: 0.0)
    context = in_stack(machine, [sys.executable, "-c", "import time; time.sleep(600)"])
    server = context.resolved.experiment.server.model_copy(update={"stop_grace_s": 1.0})
    experiment = context.resolved.experiment.model_copy(update={"server": server})
    object.__setattr__(context.resolved, "experiment", experiment)
    result = smoke.smoke(context)
    assert result.status == "fail"
    assert "the container of p-vllm did not end: no answer within 1 s" in result.seen


def test_secrets_of_the_server_are_struck_out(machine: Machine) -> None:
    machine.answers["serve"] = DEAD | {"log": ["bad token planted-token-4711"]}
    result = smoke.smoke(in_stack(machine))
    assert "bad token ***" in result.seen
    assert "4711" not in result.seen


@pytest.mark.parametrize("cpu", [True, False])
def test_question_is_the_server_s_and_goes_through_standard_input(
    machine: Machine, cpu: bool
) -> None:
    asked = machine.root / "asked.json"
    noting = (
        "import json, sys\n"
        f"open({str(asked)!r}, 'w').write(json.dumps([json.load(sys.stdin), sys.argv]))\n"
    )
    smoke.smoke(in_stack(machine, [sys.executable, "-c", noting], cpu=cpu))
    question, words = json.loads(asked.read_text())
    argv = question["argv"]
    assert argv[:3] == ["vllm", "serve", "/app/models/tiny"]
    assert argv[argv.index("--host") + 1] == "127.0.0.1"
    assert ("--gpu-memory-utilization" in argv) is not cpu
    assert json.loads(argv[-1])["method"] == "ngram"
    assert question["env"] == {"API_TOKEN": "planted-token-4711"}
    assert "4711" not in json.dumps(words)  # what 'docker inspect' and 'ps' show


def test_models_are_where_the_containers_see_them(machine: Machine) -> None:
    put(machine.root / ".env", {"MODEL_CACHE": str(machine.root / "mounted")})
    context = in_stack(machine)
    for folder in ("mounted/mine", "elsewhere"):
        (machine.root / folder).mkdir(parents=True)

    def where(**model: Any) -> str:
        return container.folder_of(context, Model(name="s", **model))

    assert where(path="org/name") == "org/name"
    assert where(path="models/tiny") == "/app/models/tiny"
    assert where(path=str(machine.root / "mounted" / "mine")) == "/models/mine"
    with pytest.raises(EnvironmentFault, match="the containers see"):
        where(path=str(machine.root / "elsewhere"))
    with pytest.raises(EnvironmentFault, match="not in the mounted cache"):
        where(embedded="smollm2-135m")


@pytest.mark.parametrize("own", [True, False])
def test_embedded_model_that_is_not_there_names_the_remedy(machine: Machine, own: bool) -> None:
    if own:
        put(machine.root / ".env", {"MODEL_CACHE": str(machine.root / "mounted")})
    context = in_stack(machine)
    machine.write("models", "small", {"embedded": catalogue.SMOLLM2_135M.name})
    result = smoke.smoke(context)
    assert result.status == "fail"
    remedy = result.remedy or ""
    assert "make build fetch CPU=1 MODEL=small" in remedy
    assert ("make setup" in remedy) is not own  # it fills the user's own cache only


SERVER = (
    "import http.server, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(b'counters')\n"
    "    def do_POST(self):\n"
    "        body = self.rfile.read(int(self.headers['Content-Length']))\n"
    "        self.send_response(418); self.end_headers(); self.wfile.write(b'got ' + body)\n"
    "    def log_message(self, *words): pass\n"
    "print('serving', flush=True)\n"
    "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
)


def serve(argv: list[str], port: int, ready_s: float) -> tuple[dict[str, Any], list[str]]:
    """What ``inside/serve.py`` tells on this Python, and the lines on the way."""
    question = {
        "argv": argv, "env": {"PLANTED": "yes"},
        "url": f"http://127.0.0.1:{port}", "body": {"a": 1},
        "ready_s": ready_s, "answer_s": 30, "grace_s": 5, "lines": 2,
    }  # fmt: skip
    seen: list[str] = []
    answer = ask([sys.executable], "serve", os.environ, 120, question, seen.append)
    assert answer.value is not None, answer.said
    return answer.value, seen


def test_program_in_the_container_serves_asks_and_ends_it(tmp_path: Path, free_port: int) -> None:
    found, seen = serve([sys.executable, "-c", SERVER, str(free_port)], free_port, 60)
    assert found["ready_s"] > 0
    assert (found["status"], found["answer"]) == (418, 'got {"a": 1}')
    assert found["metrics"] == "counters"
    assert found["exit_code"] is None
    assert found["failed"] is None
    assert found["log"] == seen == ["serving"]
    # Ended: its port is free again.
    again, _ = serve([sys.executable, "-c", SERVER, str(free_port)], free_port, 60)
    assert again["ready_s"] > 0


@pytest.mark.parametrize(
    ("code", "ready_s", "exit_code", "log"),
    [
        (
            "import os, sys\n"
            "for i in range(9): print(i, flush=True)\n"
            "sys.exit(os.environ['PLANTED'])",
            60,
            1,
            ["8", "yes"],
        ),
        ("import time; print('x', flush=True); time.sleep(600)", 5, None, ["x"]),
    ],
)
def test_program_in_the_container_tells_of_a_server_that_does_not_start(
    free_port: int, code: str, ready_s: float, exit_code: int | None, log: list[str]
) -> None:
    found, _ = serve([sys.executable, "-c", code], free_port, ready_s)
    assert found["ready_s"] is None
    assert (found["exit_code"], found["log"]) == (exit_code, log)


def test_program_in_the_container_tells_of_one_that_is_not_there(free_port: int) -> None:
    found, _ = serve(["/nowhere/vllm", "serve"], free_port, 5)
    assert found["failed"] == "cannot start /nowhere/vllm: No such file or directory"
