"""A tiny engine with continuous batching: what happens in each step, on any clock.

It does not sleep and has no I/O.  A driver calls ``plan`` at a step's begin, lets the step's time
pass (on the real clock or a virtual one) and calls ``finish``.  Counting follows vLLM: a request
has a first token without a draft, each later request-step may verify one, and accepted tokens are
counted before a request's tail is cut.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from specgauge.simulate.acceptance import Draft, Drafter
from specgauge.simulate.freezes import FreezePlan, StepView
from specgauge.simulate.planted import Freeze, Preemption, method_of
from specgauge.simulate.prefix_cache import PrefixCache
from specgauge.simulate.request import FinishReason, Request, diverge_by_batch
from specgauge.simulate.steptime import StepTime
from specgauge.simulate.tokens import EOS
from specgauge.simulate.truth import Truth

_NEEDS_HIDDEN_STATES = ("eagle", "eagle3", "mtp", "dflash", "dspark")


@dataclass
class Work:
    """One request's part in a step."""

    request: Request
    prefill: int = 0
    draft: Draft | None = None
    yields: bool = True
    """False: a prefill cut by the step's token budget, no token yet."""


@dataclass
class Step:
    """One step: freezes first, then ``run_s``."""

    t_begin: float
    work: list[Work] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)
    first_call_s: float = 0.0
    run_s: float = 0.0
    queries: int = 0
    hits: int = 0
    lookups: int = 0
    preempted: int = 0

    @property
    def frozen_s(self) -> float:
        """Planted seconds before the step itself."""
        return sum(f.length_s for f in self.freezes)

    @property
    def duration_s(self) -> float:
        """Whole length of the step."""
        return self.frozen_s + self.first_call_s + self.run_s

    @property
    def batch(self) -> int:
        """Requests in the step."""
        return len(self.work)

    @property
    def prefill(self) -> int:
        """Prompt tokens computed in the step."""
        return sum(w.prefill for w in self.work)


@dataclass(frozen=True)
class Emission:
    """What one request got out of one step."""

    request: Request
    token_ids: tuple[int, ...]
    first: bool
    finished: FinishReason | None
    draft: Draft | None
    gap_s: float | None
    """Since the request's previous tokens; null for its first."""


class Engine:
    """Scheduler and "model" of one server process.

    Args:
        truth: the planted truth.
        section: which of the truth's variants it is: ``vanilla``, ``ngram:6`` (see ``Truth``).
        num_speculative_tokens: K; 0 without a speculative method.
        max_num_seqs: most requests in one step.
        start: which start of this section it is, from 0.
    """

    def __init__(
        self,
        truth: Truth,
        section: str,
        num_speculative_tokens: int,
        max_num_seqs: int,
        start: int = 0,
    ) -> None:
        self.truth = truth
        self.section = section
        self.drafter = Drafter(truth.variant(section), num_speculative_tokens)
        self.steptime = StepTime(truth, section, start)
        self.max_num_seqs = max_num_seqs
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.generated = 0
        self.completed = 0
        self.t_ready = 0.0
        self.cache = PrefixCache(
            truth.kv_cache_tokens,
            truth.block_size,
            truth.prefix_caching,
            drops_last_block=method_of(section) in _NEEDS_HIDDEN_STATES,
        )
        self._freezes = FreezePlan(truth.freezes)
        self._first_call_s = truth.variant(section).first_call_s
        self._previous_batch = 0
        self._preempted_at: dict[int, float] = {}

    def submit(self, request: Request) -> None:
        """Queue a request."""
        request.chain = self.cache.chain(request.prompt)
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Drop a request whose client is gone; no effect once it finished."""
        if request.finished is not None:
            return
        request.finished = "abort"
        if request in self.running:
            self.running.remove(request)
        if request in self.waiting:
            self.waiting.remove(request)

    @property
    def active(self) -> bool:
        """Whether a step has anything to do."""
        return bool(self.waiting) or any(not r.stalled for r in self.running)

    @property
    def cache_usage(self) -> float:
        """Share of the KV cache that running requests hold, 0 to 1."""
        return min(self._held() / self.truth.kv_cache_tokens, 1.0)

    def plan(self, now: float) -> Step:
        """Schedule the step that begins at ``now``."""
        step = Step(t_begin=now)
        self._plant_preemptions(step, now)
        self._make_room(step)
        budget = self.truth.max_batched_tokens
        for request in self.running:
            if not request.stalled:
                budget -= self._add(step, request, budget)
        while self.waiting and len(self.running) < self.max_num_seqs and budget > 0:
            if not self._admit(step, now):
                break
            if not self.running[-1].stalled:
                budget -= self._add(step, self.running[-1], budget)
        self._settle(step, now)
        return step

    def _settle(self, step: Step, now: float) -> None:
        """Length of the step, once its work is known."""
        if not step.work:
            return
        drafted = any(w.draft is not None for w in step.work)
        step.run_s = self.steptime.draw(step.batch, step.prefill, drafted, now - self.t_ready)
        step.first_call_s, self._first_call_s = self._first_call_s, 0.0
        step.freezes = self._freezes.due(
            StepView(
                since_ready_s=now - self.t_ready,
                generated=self.generated,
                batch=step.batch,
                previous_batch=self._previous_batch,
                arrivals=[w.request.arrival for w in step.work],
                fresh=[w.request.emitted == 0 for w in step.work],
                wanted=[w.request.max_tokens for w in step.work],
            )
        )
        self._previous_batch = step.batch

    def _add(self, step: Step, request: Request, budget: int) -> int:
        """Put a running request into the step.  Returns the tokens that it takes."""
        if budget <= 0:
            return 0
        if request.decoding:
            draft = self.drafter.draw(request.rng, request.coverage_factor)
            step.work.append(Work(request, draft=draft))
            return 1 + (draft.proposed if draft else 0)
        missing = request.to_prefill - request.computed
        prefill = min(missing, budget)
        request.computed += prefill
        step.work.append(Work(request, prefill=prefill, yields=prefill == missing))
        return max(prefill, 1)

    def _admit(self, step: Step, now: float) -> bool:
        """Move the oldest waiting request to the running ones, if it fits."""
        request = self.waiting[0]
        blocks = self._blocks(request.to_prefill + 1)
        if self.running and self._held() + blocks > self.truth.kv_cache_tokens:
            return False
        self.waiting.popleft()
        hits = self.cache.lookup(request.chain, request.to_prefill)
        self.cache.insert(request.chain)
        if request.preemptions == 0:
            step.lookups += 1
            step.queries += len(request.prompt)
            step.hits += hits
            request.cached = hits
            request.t_scheduled = now
        request.computed = hits
        self.running.append(request)
        return True

    def _make_room(self, step: Step) -> None:
        """Preempt the newest requests until each running one can grow by a step."""
        grown = self.drafter.k + 1
        while len(self.running) > 1 and self._held(grown) > self.truth.kv_cache_tokens:
            self._preempt(step)

    def _preempt(self, step: Step) -> None:
        request = self.running.pop()
        request.computed = 0
        request.preemptions += 1
        step.preempted += 1
        self.waiting.appendleft(request)

    def _plant_preemptions(self, step: Step, now: float) -> None:
        since = now - self.t_ready
        for index, planted in enumerate(self.truth.preemptions):
            if not self._preemption_due(index, planted, since):
                continue
            if self.running:
                self._preempted_at[index] = since
            for _ in range(min(planted.requests, len(self.running))):
                self._preempt(step)

    def _preemption_due(self, index: int, planted: Preemption, since: float) -> bool:
        if planted.at_s is not None and since < planted.at_s:
            return False
        if planted.after_tokens is not None and self.generated < planted.after_tokens:
            return False
        last = self._preempted_at.get(index)
        return last is None or (not planted.once and since - last >= planted.every_s)

    def _held(self, grown: int = 0) -> int:
        return sum(
            self._blocks(len(r.prompt) + r.emitted + (grown if r.decoding else 0))
            for r in self.running
        )

    def _blocks(self, tokens: int) -> int:
        """Tokens rounded up to whole blocks."""
        size = self.truth.block_size
        return -(-tokens // size) * size

    def finish(self, step: Step, now: float) -> list[Emission]:
        """The step is over at ``now``: what each of its requests got."""
        emissions = [
            self._emit(work, step.batch, now)
            for work in step.work
            if work.yields and work.request.finished is None
        ]
        if any(e.finished for e in emissions):
            self.running = [r for r in self.running if r.finished is None]
        return emissions

    def _emit(self, work: Work, batch: int, now: float) -> Emission:
        request = work.request
        diverge_by_batch(self.truth, self.section, request, batch)
        wanted = 1 + (work.draft.accepted if work.draft else 0)
        ids: list[int] = []
        for position in range(request.emitted, min(request.emitted + wanted, request.max_tokens)):
            ids.append(request.output.at(position))
            if ids[-1] == EOS and not request.ignore_eos:
                request.finished = "stop"
                break
        first, gap = request.t_first is None, None
        if request.t_last is None:
            request.t_first = now
        else:
            gap = now - request.t_last
        request.t_last = now
        request.emitted += len(ids)
        request.computed = request.to_prefill
        self.generated += len(ids)
        if request.finished is None and request.emitted >= request.max_tokens:
            request.finished = "length"
        if request.finished is not None and request.arrival:
            self.completed += 1
        return Emission(request, tuple(ids), first, request.finished, work.draft, gap)
