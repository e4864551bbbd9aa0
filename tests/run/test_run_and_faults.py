"""The whole command line on the simulator: a good run, and each fault a person can meet."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from project import SLOW, SimulatedProject, no_trace, quiet

pytestmark = pytest.mark.system


def test_a_good_run_measures_everything_and_reports(project: SimulatedProject) -> None:
    done = project.run()
    assert quiet(project, done), done.stderr
    assert no_trace(done)
    assert "INDICATIVE" in done.stdout
    summary = project.summary()
    cells = {(c["variant"], c["load"]): c for c in summary["cells"]}
    assert set(cells) == {(v, load) for v in ("vanilla", "ngram") for load in ("c1", "c4")}
    for (_, load), cell in cells.items():
        assert cell["observed"]["output_tokens"] == {"c1": 2, "c4": 8}[load] * 24
        assert cell["observed"]["failed"] == 0
    for name in ("report.md", "tables/headline.csv", "figures/throughput.png"):
        assert (project.latest / "analysis" / name).stat().st_size > 0
    sent = pd.read_parquet(project.latest / "ngram/start-0/c4/repeat-0/requests.parquet")
    assert sorted(sent["index"]) == list(range(8))
    assert set(sent["state"]) == {"ok"}
    assert project.document("manifest.json")["vllm"]["version"] == "0.32.0"


def test_each_start_of_the_baseline_and_the_drift_start_is_made(project: SimulatedProject) -> None:
    project.experiment |= {"rounds": 2, "baseline_last": True, "variants": ["vanilla"]}
    project.experiment["loads"] = [{"concurrency": 2, "requests": 2}]
    assert quiet(project, project.run())
    roles = [project.document(f"vanilla/start-{k}/outcome.json")["role"] for k in range(3)]
    assert roles == ["round", "round", "drift"]


def test_without_a_baseline_there_are_verdicts_and_no_speed_ups(project: SimulatedProject) -> None:
    done = project.specgauge("run", "-e", "x", "-v", "ngram")
    assert quiet(project, done), done.stderr
    assert project.summary()["comparisons"] == []
    assert all(cell["verdict"] for cell in project.summary()["cells"])
    assert "baseline" in done.stdout


def test_the_warm_up_is_recorded_and_never_measured(project: SimulatedProject) -> None:
    warm = project.root / "config" / "workloads" / "warm.jsonl"
    warm.write_text("".join(json.dumps({"prompt": f"warm {i}"}) + "\n" for i in range(9)))
    project.write("workloads", "warm", {"path": "warm.jsonl"})
    project.experiment["warmup"] = {"workload": "warm", "batches": [1, 4, 3], "output_tokens": 4}
    assert quiet(project, project.run())
    folders = sorted((project.latest / "vanilla/start-0/warmup").iterdir())
    assert [folder.name for folder in folders] == [f"repeat-{n}" for n in range(5)]
    assert {cell["load"] for cell in project.summary()["cells"]} == {"c1", "c4"}


def test_prompts_of_the_warm_up_must_not_be_measured(project: SimulatedProject) -> None:
    project.experiment["warmup"] = {"workload": "w", "batches": [1]}
    done = project.run()
    assert done.returncode == 2
    assert "is also measured" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-v", "ngrm"], "did you mean 'ngram'"),
        (["-v", "all", "--model", "mm"], "did you mean 'm'"),
        (["-v", "all", "-e", "y"], "no experiment is called 'y'"),
        (["-v", "all", "--run", "../x"], "a plain name"),
        ([], "Experiment 'x' has vanilla, ngram: name one with -v"),
    ],
)
def test_words_that_mean_nothing(
    project: SimulatedProject, words: list[str], expected: str
) -> None:
    done = project.specgauge("run", "-e", "x", *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert no_trace(done)


def test_a_broken_prompts_file_names_its_line_before_anything_starts(
    project: SimulatedProject,
) -> None:
    project.prompts_file.write_text('{"prompt": "a"}\n{"prompt": oops}\n')
    done = project.run()
    assert done.returncode == 2
    assert "w.jsonl:2: not a JSON object" in done.stderr
    assert not (project.root / "results").exists()


def test_a_taken_port_says_by_whom(project: SimulatedProject) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", project.port))
        holder.listen()
        done = project.run()
    assert done.returncode == 5
    assert f"port {project.port} on 127.0.0.1 is taken by " in done.stderr
    assert f"pid {os.getpid()}" in done.stderr
    assert no_trace(done)


def test_a_server_that_dies_while_loading_does_not_stop_the_others(
    project: SimulatedProject,
) -> None:
    project.truth["die"] = {
        "variants": ["ngram"],
        "while_loading": "RuntimeError: no kernel image is available",
        "exit_code": 3,
    }
    project.experiment["variants"] = ["ngram", "vanilla"]
    done = project.run()
    assert done.returncode == 4
    assert "exit code 3" in done.stderr
    assert "no kernel image is available" in done.stderr
    assert no_trace(done)
    assert {cell["variant"] for cell in project.summary()["cells"] if cell["verdict"] == "VALID"}
    outcome = project.document("ngram/start-0/outcome.json")
    assert outcome["state"] == "failed"
    assert outcome["server_died"] is True


def test_a_server_that_dies_mid_cell_leaves_its_records_and_an_invalid_cell(
    project: SimulatedProject,
) -> None:
    project.truth["die"] = {"variants": ["ngram"], "after_tokens": 100, "how": "signal"}
    done = project.run()
    assert done.returncode == 4
    assert "SIGKILL" in done.stderr
    assert no_trace(done)
    cells = {(c["variant"], c["load"]): c for c in project.summary()["cells"]}
    assert cells["ngram", "c4"]["verdict"] == "INVALID"
    assert "INCOMPLETE" in {reason["code"] for reason in cells["ngram", "c4"]["reasons"]}
    assert cells["vanilla", "c4"]["verdict"] != "INVALID"
    chunks = pd.read_parquet(project.latest / "ngram/start-0/c4/repeat-0/chunks.parquet")
    assert chunks["tokens"].sum() > 0


def test_a_start_that_failed_is_made_again_by_the_next_run(project: SimulatedProject) -> None:
    project.truth["die"] = {"variants": ["ngram"], "while_loading": "boom"}
    assert project.run().returncode == 4
    first = project.latest
    del project.truth["die"]
    done = project.run()
    assert quiet(project, done), done.stderr
    assert project.latest == first
    assert "1 of 2 starts are measured" in done.stdout
    assert (first / "ngram/start-0").is_dir()
    assert project.document("ngram/start-1/outcome.json")["state"] == "complete"
    assert not (first / "vanilla/start-1").exists()


def test_a_failed_request_makes_its_cell_invalid_and_its_start_is_made_again(
    project: SimulatedProject,
) -> None:
    project.truth["faults"] = [{"variants": ["ngram"], "request": 2, "kind": "status"}]
    done = project.run()
    assert done.returncode == 4
    assert "c1: 1 of 2 requests failed" in done.stderr
    by = {(c["variant"], c["load"]): c["verdict"] for c in project.summary()["cells"]}
    assert by["ngram", "c1"] == "INVALID"
    assert by["vanilla", "c1"] != "INVALID" or "CLIENT_STARVED" in str(project.summary())
    del project.truth["faults"]
    first = project.latest
    assert quiet(project, project.run())
    assert project.latest == first
    assert (first / "ngram/start-1").is_dir()
    assert not (first / "vanilla/start-1").exists()


def test_a_server_that_dies_between_ready_and_the_first_cell_does_not_stop_the_others(
    project: SimulatedProject,
) -> None:
    project.truth["die"] = {"variants": ["ngram"], "at_s": 0.0, "exit_code": 3}
    project.experiment["variants"] = ["ngram", "vanilla"]
    done = project.run()
    assert done.returncode == 4
    assert "exit code 3" in done.stderr
    assert no_trace(done)
    assert {c["variant"] for c in project.summary()["cells"]} >= {"vanilla"}


def test_a_killed_scraper_costs_its_start_and_no_other(project: SimulatedProject) -> None:
    project.truth["variants"] = {"vanilla": {"step_ms": {"1": 100.0, "16": 100.0}}}
    process = project.start("run", "-e", "x", "-v", "all")
    assert project.reaches("vanilla", ready=True)
    assert project.loads()
    scraper = project.called("specgauge.scrape")[0]
    scraper.kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 4, out + err
    assert "ended by signal 9" in err
    assert project.document("vanilla/start-0/outcome.json")["state"] == "failed"
    assert project.document("ngram/start-0/outcome.json")["state"] == "complete"


def test_two_commands_on_one_port_do_not_share_it(project: SimulatedProject) -> None:
    project.truth["variants"] = {"vanilla": SLOW}
    process = project.start("run", "-e", "x", "-v", "vanilla")
    assert project.reaches("vanilla", ready=False)
    second = project.run("--new")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=240)
    assert second.returncode == 5
    assert "in use by another specgauge command" in second.stderr
    (only,) = (project.root / "results").glob("x/*/manifest.json")
    assert project.latest == only.parent


def test_a_taken_port_leaves_the_runs_and_the_latest_as_they_were(
    project: SimulatedProject,
) -> None:
    results = project.root / "results"
    (results / "x" / "earlier").mkdir(parents=True)
    (results / "latest").symlink_to("x/earlier")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", project.port))
        taken.listen()
        done = project.run()
    assert done.returncode == 5
    assert f"port {project.port} on 127.0.0.1 is taken by" in done.stderr
    assert [path.name for path in (results / "x").iterdir() if path.is_dir()] == ["earlier"]
    assert project.latest.name == "earlier"


def test_a_flag_that_this_vllm_does_not_know(project: SimulatedProject) -> None:
    project.truth["loading"] = {"reject_flags": ["--disable-log-requests"]}
    project.experiment["server"]["args"] = {"disable-log-requests": True}
    done = project.run()
    assert done.returncode == 4
    assert "unrecognized arguments: --disable-log-requests" in done.stderr


def test_a_server_that_is_never_ready(project: SimulatedProject) -> None:
    project.truth["loading"] = {"never_ready": "503"}
    project.experiment["server"]["ready_timeout_s"] = 2
    done = project.run()
    assert done.returncode == 4
    assert "not ready within 2 s" in done.stderr


def test_a_server_deaf_to_term_with_a_child_that_stays_is_gone_all_the_same(
    project: SimulatedProject,
) -> None:
    project.truth["stopping"] = {"ignore_term": True, "leave_child": True}
    project.experiment["variants"] = ["vanilla"]
    assert quiet(project, project.run())
    assert project.document("vanilla/start-0/launch.json")["killed"] is True
    assert project.nothing_runs(0.5)


def test_a_model_folder_that_is_missing(project: SimulatedProject) -> None:
    project.write("models", "m", {"path": "./models/nowhere"})
    done = project.run()
    assert done.returncode == 5
    assert "model folder ./models/nowhere does not exist" in done.stderr
    assert no_trace(done)


def test_a_server_program_that_is_missing(project: SimulatedProject) -> None:
    project.experiment["server"]["command"] = [".venv-nowhere/bin/python", "serve"]
    done = project.run()
    assert done.returncode == 5
    assert ".venv-nowhere/bin/python" in done.stderr
    assert no_trace(done)


def test_another_vllm_than_the_experiment_is_about(project: SimulatedProject) -> None:
    project.experiment["server"]["vllm_version"] = "0.27.1"
    done = project.run()
    assert done.returncode == 5
    assert "the server is vLLM 0.32.0" in done.stderr
    assert no_trace(done)


def test_prompts_that_do_not_fit_the_model(project: SimulatedProject) -> None:
    project.truth["max_model_len"] = 30
    done = project.run()
    assert done.returncode == 2
    assert "does not fit into the server's 30" in done.stderr
    assert no_trace(done)


def small_disk(at: Path, size: str) -> bool:
    """Mount a disk of ``size`` at ``at``; False where that is not allowed."""
    at.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("left", [0, 24_000])
def test_a_full_disk_is_one_message_and_loses_nothing(project: SimulatedProject, left: int) -> None:
    disk = project.root / "results"
    if not small_disk(disk, "1m"):
        pytest.skip("a small disk can only be mounted by root on Linux")
    try:
        project.experiment["variants"] = ["vanilla"]
        assert quiet(project, project.run())
        before = (project.latest / "manifest.json").read_bytes()
        free = shutil.disk_usage(disk).free
        (disk / "ballast").write_bytes(b"x" * (free - left))
        done = project.run("--new")
        assert done.returncode == 5
        assert "disk is full" in done.stderr
        assert no_trace(done)
        assert project.nothing_runs()
        (disk / "ballast").unlink()
        assert any(p.read_bytes() == before for p in disk.glob("x/*/manifest.json"))
        assert quiet(project, project.run())
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_results_folder_of_another_schema(project: SimulatedProject) -> None:
    folder = project.root / "results" / "x" / "old"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"schema": "specgauge.results/0"}')
    done = project.specgauge("report", "x/old")
    assert done.returncode == 2
    assert "specgauge.results/0" in done.stderr
    assert no_trace(done)
    listed = project.specgauge("list")
    assert listed.returncode == 0
    assert "specgauge.results/0" in listed.stdout
