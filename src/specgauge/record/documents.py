"""The JSON documents of a results folder: launch.json, outcome.json, cell.json.

``manifest.json`` is in ``manifest.py``.  Unknown keys are kept out of the models but not refused:
a later release may add some.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator


class Document(BaseModel):
    """Base of the documents: immutable, tolerant of additions."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class ClockOffset(Document):
    """Epoch minus monotonic, in seconds, of one process at a cell's start and end."""

    begin: float
    end: float | None = None


class CacheState(Document):
    """A compile cache folder: how many files, how many bytes, newest change (epoch seconds)."""

    path: str
    files: int
    bytes: int
    newest: float | None = None
    written: list[float] = []
    """When each file was written that changed during the start (epoch seconds, rising)."""


class GpuUse(Document):
    """What one start did on its GPU, as the driver told it (process way)."""

    uuid: str
    pci_bus_id: str
    memory_before: int
    """Bytes used on the card before the server was started."""
    memory_ready: int | None = None
    """When it was ready; null if it never was."""
    pids_visible: bool | None = None
    """Whether the driver's process numbers are those of this system.  False (a container): that the
    server is on this card was seen by its memory alone."""
    memory_after: int | None = None
    """At the last look after the server's end."""
    release_s: float | None = None
    """From the end of the server until its memory was back; null if it was not in time."""
    kept_by: list[str] = []
    """Whose processes were on the card then, in words."""


class Launch(Document):
    """``launch.json``: one server process, as the process runner saw it."""

    document: Literal["specgauge.launch/1"] = "specgauge.launch/1"
    id: str
    """Unique per start; also the name of its stop marker."""
    argv: list[str]
    env: dict[str, str]
    """Variables set for this start on top of the runner's own; secrets struck out."""
    pid: int | None = None
    started_at: float
    """Epoch seconds."""
    clock_offset: float
    """Epoch minus monotonic when it was started: turns log stamps into cell times."""
    ready_at: float | None = None
    """Epoch seconds of the first 200 from /health; null if it never came."""
    ended_at: float | None = None
    exit_code: int | None = None
    """As the shell knows it: negative = ended by that signal."""
    killed: bool = False
    """TERM was not enough."""
    leftover: int = 0
    """Processes of its tree that had to be killed after the main one had ended."""
    log_error: str | None = None
    """Lines are missing from server.log: it could not be written."""
    gpu: GpuUse | None = None
    """Null without a GPU, and in the Compose way."""
    cache_before: list[CacheState] = []
    cache_after: list[CacheState] = []


class Outcome(Document):
    """``outcome.json``: how a start ended.  Its absence = the start is partial."""

    document: Literal["specgauge.outcome/1"] = "specgauge.outcome/1"
    variant: str
    start: int
    round: int
    """Which round it counts for; a replaced start leaves its round to the later one."""
    role: Literal["round", "drift"] = "round"
    """``drift``: the baseline once more at the end; not part of any round."""
    state: Literal["complete", "failed", "interrupted"]
    error: str | None = None
    """For people: why it failed; null when complete."""
    vllm_version: str | None = None
    server_died: bool = False
    speculative_config: dict[str, Any] | None = None
    """As passed to vLLM."""


class ClientSelf(Document):
    """What the load generator saw of itself during a cell, one per process."""

    worker: int
    pid: int
    cpu_s: float
    """User and system time used."""
    run_s: float | None = None
    """/proc/self/schedstat: time on a CPU."""
    wait_s: float | None = None
    """/proc/self/schedstat: time runnable but waiting for a CPU."""
    clock: ClockOffset
    timestamps: Literal["kernel", "user"]
    """``kernel`` if SO_TIMESTAMPNS could be set on its sockets."""


class CellDocument(Document):
    """``cell.json``: one measured (or attempted) cell."""

    document: Literal["specgauge.cell/1"] = "specgauge.cell/1"
    variant: str
    start: int
    load: str
    repeat: int
    concurrency: int | None = None
    rate: float | None = None
    state: Literal["complete", "incomplete"]
    """``incomplete``: stopped early, server died, or Locust failed; records kept."""
    error: str | None = None
    planned_requests: int
    t_begin: float
    """Monotonic: before the load generator was started (the quiet time lies before it)."""
    t_go: float | None = None
    """Monotonic: the barrier after which requests may be sent."""
    t_end: float
    """Monotonic: after the last record (the quiet time follows)."""
    clock: ClockOffset
    """The harness's own."""
    clients: list[ClientSelf] = []
    locust_version: str | None = None
    locust_exit_code: int | None = None
    output_tokens: int
    """Asked of every request."""
    ignore_eos: bool
    temperature: float | None
    prefix_cache: Literal["keep", "reset"]
    prefix_cache_was_reset: bool = False
    host_load: dict[str, float] = {}
    """Load averages and steal seconds around the cell, where the system tells."""

    @model_validator(mode="after")
    def _in_order(self) -> CellDocument:
        times = [t for t in (self.t_begin, self.t_go, self.t_end) if t is not None]
        if times != sorted(times):
            raise ValueError("t_begin, t_go and t_end are not in this order")
        return self


class Margin(Document):
    """How far the two best tokens were apart where an output left the other side's."""

    load: str
    repeat: int
    index: int
    """The request's."""
    position: int
    """In its output."""
    margin: float | None
    """Natural logarithm of the ratio of their probabilities; null: the server did not say."""


class Margins(Document):
    """``margins.json``: asked of a start's server after its last cell."""

    document: Literal["specgauge.margins/1"] = "specgauge.margins/1"
    variant: str
    """The start whose outputs these were compared with."""
    start: int
    margins: list[Margin]
