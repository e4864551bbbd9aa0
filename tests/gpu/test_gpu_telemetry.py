"""Telemetry: what is sampled when, who is ours, and the exporter as a second source."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from specgauge.gpu.exporter import GpuCollector
from specgauge.gpu.fake import FakeGpu, FakeNvml, FakeProcess
from specgauge.gpu.occupancy import look
from specgauge.gpu.owners import nobody, of_server
from specgauge.gpu.sampler import Sampler
from specgauge.gpu.source import ExporterSource, NvmlSource, parse
from specgauge.gpu.telemetry import source_of
from specgauge.gpu.telemetry_file import write
from specgauge.record.schema import TELEMETRY

GIB = 2**30


class Stop(threading.Event):
    """An event on a clock of its own: it is set when ``seconds`` have passed there."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.now, self.end = 0.0, seconds

    def clock(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.now >= self.end

    def wait(self, timeout: float | None = None) -> bool:
        self.now += max(timeout or 0.0, 0.0)
        return self.is_set()


def sampled(gpu: FakeGpu, seconds: float, judge=nobody, slow_s: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame(looks(gpu, seconds, judge, slow_s), columns=TELEMETRY.names)


def looks(gpu: FakeGpu, seconds: float, judge=nobody, slow_s: float = 0.0) -> list[tuple]:
    stop = Stop(seconds)
    nvml = FakeNvml([gpu], clock=stop.clock)
    (device,) = nvml.devices()
    source = NvmlSource(nvml, device, judge)
    plain = source.sample

    def slowly(with_tenants: bool):
        stop.now += slow_s
        return plain(with_tenants)

    source.sample = slowly
    sampler = Sampler(source, stop.clock)
    sampler.run(stop)
    return sampler.rows


def card(**planted) -> FakeGpu:
    return FakeGpu("GPU-a", "00000000:41:00.0", **planted)


def test_five_looks_a_second_and_tenants_in_one_of_them() -> None:
    rows = sampled(card(), 10.0)
    assert len(rows) == 51
    assert rows["t"].diff().dropna().round(6).unique().tolist() == [0.2]
    asked = rows[rows["other"].notna()]
    assert asked["t"].round(6).tolist() == [float(n) for n in range(11)]


def test_a_slow_card_skips_times_and_keeps_the_grid() -> None:
    rows = sampled(card(), 10.0, slow_s=0.3)
    # Begun at 0, 0.4, 0.8, …; answered 0.3 s later.
    assert (rows["t"] - 0.3).round(6).tolist()[:4] == [0.0, 0.4, 0.8, 1.2]
    gaps = rows[rows["other"].notna()]["t"].diff().dropna()
    assert gaps.max() <= 1.4 + 1e-6


def test_energy_is_the_planted_power_over_time() -> None:
    rows = sampled(card(power_w=[[0, 200.0], [4, 600.0]]), 8.0)
    joules = rows["energy_j"].iloc[-1] - rows["energy_j"].iloc[0]
    assert joules == pytest.approx(4 * 200 + 4 * 600)
    assert rows["power_w"].iloc[0] == 200
    assert rows["power_w"].iloc[-1] == 600


def test_what_the_card_does_not_tell_is_null() -> None:
    rows = sampled(card(energy=False, temperature_c=None, processes_fault="no permission"), 2.0)
    for column in ("energy_j", "temperature_c", "ours", "other", "unknown", "others"):
        assert rows[column].isna().all(), column
    assert (rows["memory_used"] == GIB // 2).all()


def test_a_lost_card_leaves_a_hole() -> None:
    assert sampled(card(fault="GPU is lost"), 2.0).empty


def test_who_is_on_it_by_owner_and_in_words() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()", "--token", "s3cret-value"],
                                stdin=subprocess.PIPE)  # fmt: skip
    try:
        gone = 2**22 + 5  # above the highest number that Linux gives
        processes = [FakeProcess(os.getpid()), FakeProcess(stranger.pid), FakeProcess(gone)]
        own = of_server(os.getpid(), "another-start")
        assert own(stranger.pid) == "ours"  # our child
        rows = sampled(card(processes=processes), 0.5, of_server(stranger.pid, "another-start"))
    finally:
        stranger.communicate()
    first = rows.iloc[0]
    assert (first["ours"], first["other"], first["unknown"]) == (1, 1, 1)
    assert f"pid {os.getpid()}" in first["others"]
    assert f"pid {gone}" in first["others"]
    assert str(stranger.pid) not in first["others"]


def test_a_mark_makes_a_process_ours_whoever_its_parent_is() -> None:
    env = {**os.environ, "SPECGAUGE_START_ID": "start-1"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as it:
        # Its environment is there once Python has been executed.
        deadline = 200
        while b"start-1" not in Path(f"/proc/{it.pid}/environ").read_bytes() and deadline:
            deadline -= 1
            threading.Event().wait(0.05)
        assert of_server(2**22 + 7, "start-1")(it.pid) == "ours"
        assert of_server(2**22 + 7, "start-2")(it.pid) == "other"
        it.communicate(b"\n")


def test_words_about_others_hold_no_secret() -> None:
    words = [sys.executable, "-c", "input()", "--api-key", "s3cret-value"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as it:
        nvml = FakeNvml([card(processes=[FakeProcess(it.pid)])])
        # Python has replaced the fork when its own words are there.
        for _ in range(200):
            (tenant,) = look(nvml, nvml.devices()[0]).tenants
            if "--api-key" in (tenant.command or ""):
                break
            threading.Event().wait(0.05)
        it.communicate(b"\n")
    assert "--api-key ***" in tenant.words() + (tenant.command or "")
    assert "s3cret" not in tenant.command


def test_a_process_that_may_not_be_seen_is_another_s_from_the_second_look() -> None:
    hidden, leaving = FakeProcess(2**22 + 5), FakeProcess(2**22 + 6, appears_s=2.5, ends_s=3.5)
    rows = sampled(card(processes=[hidden, leaving]), 5.0, of_server(os.getpid(), "x"))
    looks = rows[rows["other"].notna()]
    assert looks["other"].tolist() == [0, 1, 1, 1, 1, 1]
    assert looks["unknown"].tolist() == [1, 0, 0, 1, 0, 0]


def test_numbers_of_another_namespace_are_nobody_s() -> None:
    rows = sampled(card(processes=[FakeProcess(os.getpid())]), 0.5, nobody)
    assert rows["unknown"].iloc[0] == 1
    assert rows["other"].iloc[0] == 0


def exported(gpu: FakeGpu, uuid: str = "GPU-a") -> str:
    registry = CollectorRegistry()
    registry.register(GpuCollector(FakeNvml([gpu]), uuid, None, Path("/proc")))
    return generate_latest(registry).decode()


def test_the_exporter_tells_the_same() -> None:
    gpu = card(processes=[FakeProcess(os.getpid())], power_w=512.5, throttle_reasons=0x44)
    nvml = FakeNvml([gpu])
    direct = NvmlSource(nvml, nvml.devices()[0], of_server(2**22 + 7, "x")).sample(True)
    told = parse(exported(gpu), "GPU-a")
    assert direct is not None
    assert told is not None
    assert told.reading == direct.reading
    assert told.tenants is not None
    assert direct.tenants is not None
    assert (told.tenants.ours, told.tenants.other) == (0, 1)
    assert "1 processes that are not this stack's" in told.tenants.others


def test_the_exporter_s_answer_about_other_cards() -> None:
    assert parse(exported(card()), "GPU-b") is None
    assert parse(exported(card(fault="GPU is lost")), "GPU-a") is None
    assert parse("not metrics at all {", "GPU-a") is None
    hidden = parse(exported(card(processes_fault="no permission")), "GPU-a")
    assert hidden is not None
    assert hidden.tenants is None
    instance = parse(exported(card(mig=True, mig_uuids=["MIG-1"]), "MIG-1"), "MIG-1")
    assert instance is not None
    assert (instance.reading.energy_j, instance.reading.power_w) == (None, None)
    assert instance.reading.sm_clock_mhz == 1980


def test_an_exporter_that_is_not_there_leaves_a_hole(free_port: int) -> None:
    source = source_of("GPU-a", {"url": f"http://127.0.0.1:{free_port}/metrics"})
    assert isinstance(source, ExporterSource)
    assert source.sample(True) is None


def test_rows_as_written(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", looks(card(), 1.0))
    write(tmp_path / "none.parquet", [])
    read = pd.read_parquet(tmp_path / "t.parquet")
    assert read.columns.tolist() == TELEMETRY.names
    assert len(read) == 6
    assert len(pd.read_parquet(tmp_path / "none.parquet")) == 0
