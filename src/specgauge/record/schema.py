"""Column names, types and schema versions of every file in a results folder.

All times are seconds of this host's monotonic clock (``CLOCK_MONOTONIC``) as float64; the offset
to the epoch is sampled in ``cell.json``.  Token counts are whole numbers.  A missing value is null,
never a sentinel.
"""

from __future__ import annotations

import pyarrow as pa

RESULTS_SCHEMA = "specgauge.results/1"
SUMMARY_SCHEMA = "specgauge.summary/1"

REQUESTS = pa.schema(
    [
        ("index", pa.int32()),  # position in the cell's plan, 0-based; unique
        ("prompt_id", pa.string()),
        ("category", pa.string()),
        ("worker", pa.int16()),  # Locust process that sent it, 0-based
        ("slot", pa.int32()),  # closed loop: the user (0..concurrency-1); open loop: the index
        ("state", pa.string()),  # ok | failed | cut (the cell was stopped while it ran)
        ("error", pa.string()),  # what failed, one line; null when ok
        ("http_status", pa.int16()),
        ("t_scheduled", pa.float64()),  # open loads: when it should have been sent
        ("t_ready", pa.float64()),  # when its slot could have sent it (start barrier, last finish)
        ("t_send", pa.float64()),  # just before the request's bytes went to the socket
        ("t_sent", pa.float64()),  # just after
        ("t_first", pa.float64()),  # first chunk with a token: kernel time where known, else user
        ("t_first_user", pa.float64()),
        ("t_last", pa.float64()),  # last chunk with a token
        ("t_last_user", pa.float64()),
        ("t_done", pa.float64()),  # user space: response complete ([DONE] and end of body)
        ("prompt_tokens", pa.int32()),  # as planned: length of the ids sent
        ("usage_prompt_tokens", pa.int32()),  # as the server counted; null without a usage event
        ("usage_completion_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),  # usage.prompt_tokens_details.cached_tokens where given
        ("output_tokens", pa.int32()),  # sum of token ids over the chunks
        ("max_tokens", pa.int32()),
        ("chunks", pa.int32()),  # chunks with at least one token
        ("finish_reason", pa.string()),
        ("stop_reason", pa.string()),
        ("seed", pa.int64()),
        ("temperature", pa.float64()),
        ("text", pa.string()),
    ]
)

CHUNKS = pa.schema(
    [
        ("request", pa.int32()),  # index of its request
        ("seq", pa.int32()),  # 0-based among the request's chunks with a token
        ("t", pa.float64()),  # arrival: kernel receive time where known, else t_user
        ("t_user", pa.float64()),  # when user space had it
        ("kernel", pa.bool_()),  # t is the kernel's
        ("tokens", pa.int16()),
        ("token_ids", pa.list_(pa.int32())),
        ("shared_read", pa.int16()),  # token chunks (this one included) under one kernel stamp
    ]
)

METRICS = pa.schema(
    [
        ("t", pa.float64()),  # when the scrape's response had arrived
        ("name", pa.string()),  # sample name as exposed: vllm:generation_tokens_total, …_bucket
        ("labels", pa.string()),  # JSON object, keys sorted, no spaces
        ("value", pa.float64()),
    ]
)
"""A row when a series is first seen and whenever its value differs from its last row, so a value
at time t is its last row at or before t.  ``SCRAPE_SERIES`` has one row a scrape."""

SCRAPE_SERIES = "specgauge_scrape_seconds"
"""Pseudo-series of ``metrics.parquet``: value = duration of that scrape (request to last byte)."""

SCRAPE_HZ = 5.0

CPU_RUN = "specgauge_cpu_run_seconds_total"
CPU_WAIT = "specgauge_cpu_wait_seconds_total"
CPU_THROTTLED = "specgauge_cpu_throttled_seconds_total"
CPU_STOLEN = "specgauge_cpu_stolen_seconds_total"
"""More pseudo-series, five times a second (once in runs recorded earlier, without the last): time
that the main thread of each of the server's processes (labels ``pid``, ``process``) ran, or was
ready and waited for a CPU; that its cgroup was held back; that a hypervisor gave the machine's CPUs
to somebody else, summed over them.  In the Compose way the server's container takes them."""

TELEMETRY = pa.schema(
    [
        ("t", pa.float64()),  # when the GPU had answered
        ("power_w", pa.float64()),  # drawn by the whole card; since Ampere the last second's mean
        ("energy_j", pa.float64()),  # the card's own counter; only differences mean something
        ("sm_clock_mhz", pa.int32()),
        ("memory_clock_mhz", pa.int32()),
        ("temperature_c", pa.int32()),
        ("utilisation", pa.float64()),  # share of the card's last period in which a kernel ran
        ("throttle_reasons", pa.int64()),  # NVML's bit mask (gpu/throttle.py)
        ("memory_used", pa.int64()),  # bytes, whoever uses them
        ("ours", pa.int32()),  # processes of this server on the card
        ("other", pa.int32()),  # processes of anybody and anything else
        ("unknown", pa.int32()),  # processes whose owner cannot be told from here
        ("others", pa.string()),  # the other and unknown ones in words
    ]
)
"""A row a sample on a grid of ``TELEMETRY_HZ``; what the card does not tell is null.  The tenants
are looked at in the first row of each second and null in the others; null there as well: the
driver did not say who is on the card."""

ALWAYS_THERE = {
    "requests": ("index", "slot", "state", "prompt_tokens", "output_tokens", "max_tokens"),
    "chunks": ("request", "seq", "t", "t_user", "tokens"),
    "metrics": ("t", "name", "labels"),
    "telemetry": ("t",),
}
"""Columns that are never null, by the file's name."""

STATES = ("ok", "failed", "cut")

TELEMETRY_HZ = 5.0
TENANTS_EVERY = 5
"""Samples from one look at the tenants to the next: 1 Hz."""

PROMPTS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("category", pa.string()),
        ("text", pa.string()),  # as in the workload file
        ("token_ids", pa.list_(pa.int32())),  # as sent: chat template applied where asked
    ]
)
