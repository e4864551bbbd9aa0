"""``report.md``: the first screen answers the question, the rest shows why."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from specgauge.analyze.document import MissingCell, Summary
from specgauge.analyze.validity import too_few
from specgauge.report import checks, energy, escape, published, tables, words
from specgauge.report.alike import Seen
from specgauge.report.places import brief

DEFINITIONS = (
    "**TTFT** first chunk with a token − send. **TPOT** (last − first chunk) / (tokens after the "
    "first chunk): the headline latency. **Step** gap between a request's chunks, mean and median "
    "(p50): steps that also read other requests' prompts lengthen the mean, so the median is "
    "nearer to a step of decoding alone. Where chunks hold several steps (COALESCED) the mean is "
    "the server's, and the median is missing unless it is known to 5 % all the same.",
    "**Prefill share** what steps took beyond an ordinary one while prompts were read / duration: "
    "at least so much of a cell is reading. It is missing where no ordinary step of a like batch "
    "shows, where chunks hold several steps, and where the cell stood still.",
    "**Output throughput** output tokens / (last chunk − first send). **Speed-up** variant against "
    "baseline, start against start, above 1 is faster; TPOT speed-up is the geometric mean over "
    "prompts of the paired ratio.",
    "**95 % interval** Student's t on the rounds' log ratios, for that row alone. **Claim** a gain "
    "or a loss only where p, corrected for all claims of the headline (Holm), is below 5 %. "
    "*Unproven*: the row's own interval leaves out 1, and with so many claims from so few rounds "
    "that may be chance. *In doubt*: proven, from figures that are SUSPECT.",
    "**Acceptance length** 1 + accepted / drafts, conditional on a draft. **Coverage** drafts / "
    "decode chunks. **Tokens per step** tokens after the first chunk / decode chunks. "
    "**Efficiency** tokens used / positions computed. Read the first three together.",
    "**VALID / SUSPECT / INVALID** the worst of what the checks saw; INVALID cells stay visible "
    "but enter no headline. A percentile is printed only with at least 10 samples beyond it.",
)

CHECKS = (
    "Accepted tokens by the server's counters and by the stream differ by the tails cut at the end "
    "of requests (at most K each); tokens per step and the identity beside it differ by the same."
)

CORRECTED = (
    "Some cells stood still. Raw is what was observed; corrected throughput is output tokens / "
    "(duration − frozen), and its speed-up is a ratio of corrected throughputs. It is VALID only "
    "where a repeat on the same server, with the prefix cache put back, confirmed a one-off."
)

PLAUSIBILITY = (
    "Other GPUs, models and versions: these show whether ours are plausible, and are no pass mark. "
    "Where decoding waits for memory alone (a large model at concurrency 1) speed-ups of one model "
    "agree across cards, bandwidth cancels out; a small model's, or those at 16, do not. "
    "Throughputs and times of another model say nothing about ours: they are only in "
    "`summary.json`."
)

NOTES = "What the checks saw that does not taint a cell; TOO_FEW leaves that claim out."


def render(summary: Summary, figures: Mapping[str, str]) -> str:
    """The report; ``figures``: file name (without suffix) → caption of those drawn."""
    parts = [
        "# "
        + escape.inline(f"{summary.experiment or 'Run'}: {_variants(summary)} on {summary.model}"),
        _measured(summary),
        "## Result",
        *([f"**{escape.inline(text)}**"] if (text := words.standing(summary)) else []),
        tables.headline(summary).markdown(),
        *([escape.line(text)] if (text := words.fewer_rounds(summary)) else []),
        *_corrected(summary),
        "## Recommendation",
        "\n".join(_recommendations(summary)),
        "## Can it be trusted?",
        words.status(summary),
        *_reasons(summary, notes=False),
        *_failures(summary),
        "## By load",
        *([escape.line(text)] if (text := words.why_step_latency(summary)) else []),
    ]
    for load in summary.loads:
        table = tables.per_load(summary, load)
        if table.rows:
            parts += [f"### {escape.inline(table.title)}", table.markdown()]
    drawn = energy.table(summary)
    if drawn.rows:
        parts += [f"### {drawn.title}", energy.TEXT, drawn.markdown()]
    checked = checks.table(summary)
    if checked.rows:
        parts += ["### Cross-checks", CHECKS, checked.markdown()]
    beside = published.table(summary)
    if beside.rows:
        parts += ["## " + beside.title, PLAUSIBILITY, beside.markdown()]
    if figures:
        parts.append("## Figures")
        for name, caption in figures.items():
            parts += [f"![{caption}](figures/{name}.png)", f"*{caption}*"]
    if notes := _reasons(summary, notes=True):
        parts += ["## Notes", NOTES, *notes]
    parts += ["## Definitions", "\n".join(f"- {line}" for line in DEFINITIONS)]
    parts += ["## Environment", _environment(summary)]
    return "\n\n".join(parts) + "\n"


def _corrected(summary: Summary) -> list[str]:
    table = tables.corrected(summary)
    return ["### " + table.title, CORRECTED, table.markdown()] if table.rows else []


def _variants(summary: Summary) -> str:
    return ", ".join(v.name for v in summary.variants)


def _measured(summary: Summary) -> str:
    """What was measured, as a short list."""
    facts = summary.environment
    versions = sorted({s.traits.vllm_version for s in summary.starts if s.traits.vllm_version})
    loads = ", ".join(f"{load.name} ({load.requests} requests)" for load in summary.loads)
    lines = [
        f"Model {summary.model}; vLLM {', '.join(versions) or 'of unknown version'}"
        + (f"; {machine}" if (machine := _machine(facts.get("machine"), facts.get("gpu"))) else ""),
        f"Loads {loads}; {summary.rounds} round{'s' if summary.rounds != 1 else ''}; baseline "
        f"{summary.baseline}",
        *([f"Prompts: {text}"] if (text := _workload(facts.get("workload"))) else []),
        f"Run {summary.run_id}",
    ]
    return "\n".join(f"- {escape.line(line)}" for line in lines)


def _machine(value: Any, measured: Any) -> str:
    """The card that was measured (of several in the machine), processor, memory."""
    if not isinstance(value, dict):
        return ""
    shown = []
    if isinstance(measured, dict) and measured.get("name"):
        count = len(gpus) if isinstance(gpus := value.get("gpus"), list) else 1
        shown.append(f"{measured['name']}" + (f" (one of {count})" if count > 1 else ""))
        value = {key: item for key, item in value.items() if key not in ("gpu", "gpus")}
    for key in ("gpu", "gpus", "cpu"):
        if value.get(key):
            shown.append(_plain(value[key]))
    if value.get("cores"):
        shown.append(f"{_plain(value['cores'])} cores")
    if value.get("memory_gib"):
        shown.append(f"{_plain(value['memory_gib'])} GiB memory")
    return ", ".join(shown)


def _workload(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    name, count = value.get("name"), value.get("prompts")
    return f"{name}" + (f", {count} prompts" if isinstance(count, int) else "") if name else ""


def _recommendations(summary: Summary) -> list[str]:
    lines = []
    for item in summary.recommendations:
        lines.append(f"- {escape.line(item.text)}")
        if item.speculative_config:
            config = shlex.quote(json.dumps(item.speculative_config))
            lines.append("  " + escape.code(f"--speculative-config {config}"))
    return lines


def _reasons(summary: Summary, *, notes: bool) -> list[str]:
    """The table of what taints (or was not watched), or of what is only told."""
    seen = [s for s in words.reasons(summary) if (s.reason.severity == "info") == notes]
    if not seen:
        return []
    rows = ["| code | severity | where | seen | what to do |", "| --- | --- | --- | --- | --- |"]
    rows += [
        " | ".join(
            ["", s.reason.code, _severity(s),
             escape.inline(s.places if notes else ", ".join(brief(s.where))),
             escape.inline(s.reason.detail), _cell(s.reason.remedy or "nothing"), ""]
        ).strip()
        for s in seen
    ]  # fmt: skip
    return ["\n".join(rows)]


def _severity(seen: Seen) -> str:
    reason = seen.reason
    if reason.severity == "info" and reason.code != too_few.CODE:
        return reason.severity
    scope = {"step": " (step figures only)", "claim": " (that claim only)", "cell": ""}
    return reason.severity + scope[reason.scope]


def _failures(summary: Summary) -> list[str]:
    """Starts that did not end well, and planned cells that nobody measured."""
    lines = [f"- {escape.line(text)}" for text in words.failed_starts(summary)]
    lines += [f"- not measured: {escape.inline(line)}" for line in _missing(summary.missing)]
    return ["\n".join(lines)] if lines else []


def _missing(cells: Sequence[MissingCell]) -> list[str]:
    """A line a start that lacks cells: ``ngram, round 2: c1, c16``; rounds counted from 1."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        when = "again at the end" if cell.role == "drift" else f"round {cell.round + 1}"
        again = f" repeat {cell.repeat + 1}" if cell.repeat else ""
        found.setdefault(f"{cell.variant}, {when}", []).append(f"{cell.load}{again}")
    return [f"{start}: {', '.join(loads)}" for start, loads in found.items()]


def _cell(text: str) -> str:
    """Our own words, whose Markdown counts."""
    return text.replace("|", "\\|").replace("\n", " ")


def _environment(summary: Summary) -> str:
    rows = ["| what | value |", "| --- | --- |"]
    for start in summary.starts:
        traits = start.traits
        said = [
            f"vLLM {traits.vllm_version}" if traits.vllm_version else "",
            f"{traits.runner} model runner" if traits.runner else "",
            "" if traits.async_scheduling is None
            else f"asynchronous scheduling {'on' if traits.async_scheduling else 'off'}",
            f"CUDA graphs to {traits.cuda_graph_tokens} tokens" if traits.cuda_graph_tokens else "",
            f"KV cache {traits.kv_cache_tokens:,} tokens" if traits.kv_cache_tokens else "",
            f"attention {traits.attention_backend}" if traits.attention_backend else "",
            f"ready in {traits.ready_s:.0f} s" if traits.ready_s is not None else "",
        ]  # fmt: skip
        told = "; ".join(x for x in said if x) or "its log says nothing"
        rows.append(
            f"| {escape.inline(start.variant)}, start {start.start} | {escape.inline(told)} |"
        )
    for variant in summary.variants:
        if variant.speculative_config:
            config = json.dumps(variant.speculative_config)
            rows.append(f"| {escape.inline(variant.name)} | {_cell(escape.code(config))} |")
    for key, value in _flat("", summary.environment):
        if value:
            rows.append(f"| {escape.inline(key)} | {escape.inline(value)} |")
    return "\n".join(rows)


def _flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    """Nested facts as (dotted key, text)."""
    if isinstance(value, dict):
        return [pair for key, item in value.items()
                for pair in _flat(f"{prefix}.{key}" if prefix else str(key), item)]  # fmt: skip
    return [(prefix, _plain(value))]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
