"""Plans travel whole, arrivals are Poisson, addresses are understood or refused."""

import itertools
import json
import math
import statistics

import pytest

from specgauge.errors import UsageError
from specgauge.load.arrivals import poisson
from specgauge.load.clock import CpuTimes, cpu_times, epoch_offset_ns
from specgauge.load.message import address
from specgauge.load.plan import plan_from_json


def test_a_plan_comes_back_from_json(make_plan):
    plan = make_plan("http://h:1", 3, scheduled=[0.0, 0.5, 1.25], concurrency=None, top_p=0.9)
    assert plan_from_json(json.loads(json.dumps(plan.as_json()))) == plan


@pytest.mark.parametrize(
    ("n", "concurrency", "workers", "processes", "users"),
    [
        (8, 2, 0, 1, 2),
        (8, 2, 4, 2, 2),
        (3, 16, 4, 3, 16),
        (21, None, 2, 2, 22),
        (5, None, 0, 1, 5),
    ],
)
def test_users_and_processes(make_plan, n, concurrency, workers, processes, users):
    plan = make_plan("http://h:1", n, concurrency=concurrency, workers=workers)
    assert (plan.processes, plan.users) == (processes, users)


def test_poisson_gaps_are_exponential_with_the_rate():
    times = poisson(4.0, 20_001, seed=1)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert times[0] == 0
    assert statistics.mean(gaps) == pytest.approx(0.25, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.25, rel=0.05)
    assert sum(gap > 0.25 for gap in gaps) / len(gaps) == pytest.approx(math.exp(-1), abs=0.015)


def test_poisson_is_the_same_for_the_same_seed_and_scales_with_the_rate():
    assert poisson(2.0, 50, 7) == poisson(2.0, 50, 7) != poisson(2.0, 50, 8)
    assert poisson(4.0, 50, 7) == pytest.approx([t / 2 for t in poisson(2.0, 50, 7)])
    with pytest.raises(ValueError, match="positive"):
        poisson(0, 1, 1)


def test_address():
    assert address("http://127.0.0.1:8000") == ("127.0.0.1", 8000, "")
    assert address("http://h/base/") == ("h", 80, "/base")
    assert address("http://[::1]:5") == ("::1", 5, "")
    for bad in ("https://h:1", "h:1", "http://"):
        with pytest.raises(UsageError, match="http://127"):
            address(bad)


def test_the_offset_is_steady():
    one, two = epoch_offset_ns(), epoch_offset_ns()
    assert abs(one - two) < 1_000_000


def test_cpu_times_grow_with_work():
    before = cpu_times()
    sum(i * i for i in range(2_000_000))
    used = cpu_times().since(before)
    assert 0.01 < used.cpu_s < 10
    assert CpuTimes(2.0, None, 1.0).since(CpuTimes(1.0, 1.0, 0.5)) == CpuTimes(1.0, None, 0.5)
