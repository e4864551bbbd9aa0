"""What a cell's load is to send, and what is known when it has ended: plain data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from specgauge.record.documents import ClientSelf


@dataclass(frozen=True)
class PlannedRequest:
    """One request to be sent exactly once."""

    index: int
    """Position in the plan, 0-based; also the order of sending."""
    prompt_id: str
    category: str
    token_ids: tuple[int, ...]
    max_tokens: int
    seed: int | None
    """null: not sent."""
    scheduled_s: float | None = None
    """Open loads: seconds after the start barrier; null in closed loads."""


@dataclass(frozen=True)
class CellPlan:
    """Everything the load generator has to know about one cell."""

    url: str
    """``http://host:port``; a path in it is put before ``/v1/completions``."""
    model: str
    """Served model name."""
    concurrency: int | None
    """Closed loads: requests in flight."""
    rate: float | None
    """Open loads: offered requests per second (for the record; the times are in the requests)."""
    workers: int
    """0: one Locust process; else that many workers under a Locust master."""
    requests: tuple[PlannedRequest, ...]
    ignore_eos: bool
    temperature: float | None
    extra_body: dict[str, Any]
    """More keys of the request's JSON; those that the measurement depends on win over it."""
    request_timeout_s: float

    @property
    def processes(self) -> int:
        """Locust processes that send requests (a worker needs a user and a request)."""
        most = len(self.requests) if self.concurrency is None else self.concurrency
        return max(1, min(self.workers, most, len(self.requests)))

    @property
    def users(self) -> int:
        """Locust users: the concurrency; in an open load enough for every worker's share."""
        if self.concurrency is not None:
            return self.concurrency
        return math.ceil(len(self.requests) / self.processes) * self.processes

    def as_json(self) -> dict[str, Any]:
        """For ``json.dump``; the inverse of ``plan_from_json``."""
        return asdict(self)


def plan_from_json(value: dict[str, Any]) -> CellPlan:
    """A plan from what ``CellPlan.as_json`` gave."""
    requests = tuple(
        PlannedRequest(**{**item, "token_ids": tuple(item["token_ids"])})
        for item in value["requests"]
    )
    return CellPlan(**{**value, "requests": requests})


@dataclass(frozen=True)
class LoadProgress:
    """How far a running cell is."""

    sent: int
    done: int
    """Ended, whether well or not."""
    failed: int
    tokens: int
    """A lower bound: events that have arrived, each with one token or more."""


@dataclass(frozen=True)
class LoadResult:
    """How a cell's load ended.  Times are monotonic seconds."""

    t_begin: float
    t_go: float | None
    """The barrier; null when it was never reached."""
    t_end: float
    exit_code: int | None
    """Of Locust (the master where there are workers)."""
    locust_version: str
    clients: list[ClientSelf]
    error: str | None
    """One line for people: why the load generator could not do its work; null if it did."""
    stopped: bool
    """It was told to stop before all was sent."""


class LoadInterrupted(KeyboardInterrupt):
    """Ctrl-C while a cell ran; its records are written, and ``result`` is what is known of it."""

    def __init__(self, result: LoadResult) -> None:
        super().__init__()
        self.result = result
