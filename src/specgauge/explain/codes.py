"""One explanation a code: what it sees, why that matters, what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """A code in words for people."""

    code: str
    severity: str
    sees: str
    matters: str
    remedy: str


_ALL = (
    Explanation(
        "INCOMPLETE", "invalid",
        "Requests that failed, were cut off, never sent or sent twice; a cell that was stopped.",
        "Throughput and latencies then belong to another load than the one named.",
        "Read the end of server.log and locust.log, mend the cause, run the same command again: "
        "the start is made again.",
    ),
    Explanation(
        "TOKEN_MISMATCH", "invalid",
        "Token ids of the stream, usage and the server's generated tokens that do not agree, or "
        "outputs shorter than asked without finish_reason stop.",
        "Every throughput is a count of tokens; three counts that differ leave none to trust.",
        "Take away proxies between client and server and make sure nobody else uses the server.",
    ),
    Explanation(
        "UNLIKE", "invalid (the comparison)",
        "Chosen differences between the two sides: flags, variables, versions, prompts and their "
        "order, sampling, runtime, compile-cache policy.",
        "The ratio would measure that difference as well as the draft.",
        "Give both sides the same setting. What the method itself forces is FORCED_TRAIT.",
    ),
    Explanation(
        "FORCED_TRAIT", "info",
        "What the method changes in the engine beside the draft: model runner, asynchronous "
        "scheduling, the sizes up to which CUDA graphs are captured, KV cache size, attention "
        "backend; for ngram, that full graphs serve only steps in which every request drafts all K "
        "tokens.",
        "The speed-up is that of deploying the method, not of the draft alone: vLLM captures "
        "graphs up to 2 x (1 + K) x max-num-seqs tokens, at most 512, so a baseline runs without "
        "one where the variant has one.",
        "Runner and scheduling: measure a matched baseline (variant vanilla_v1); the row then has "
        "a same-runner speed-up too. Graph sizes: the same max-cudagraph-capture-size for all "
        "variants, in the model's server_args.",
    ),
    Explanation(
        "FREEZE", "suspect from 1 % of the cell, else info; unknown where it cannot be judged",
        "No chunk of any running request for longer than 10 median steps (those without prefill, "
        "where there are enough) and 250 ms, prefill that can have been read in it taken off. "
        "After a first token it is measured between chunks; "
        "before any token it is TTFT, and its size comes from a repeat of the cell. Unknown: a "
        "wait for first tokens in a run whose other prompts do not show how fast they are read.",
        "One stall of 3.3 s made EAGLE3's 1.70x look like 1.39x in the original report.",
        "`run` repeats the cell on the same server with the prefix cache put back. CONFIRMED "
        "ONE-OFF: believe the corrected figure. NEW STALL: measure again, after a longer warm-up. "
        "RECURS: it belongs to the setting; do not take it off.",
    ),
    Explanation(
        "JIT", "cause of a FREEZE; info alone",
        "A line of vLLM's compile monitor inside a freeze (up to 100 ms after its end), or within "
        "the cell without any freeze.",
        "A warning is not a latency: the same one came with 417 ms once and with 23 ms from the "
        "disk cache.",
        "Warm up with batch sizes of all three classes (1, multiples of 16, others) at the "
        "measured temperature.",
    ),
    Explanation(
        "FIRST_CALL", "suspect inside a measured cell, else info",
        "The start's first request took far longer than the same request again.",
        "ngram compiles with numba on its first real call: 1.5 to 2.4 s that no monitor sees.",
        "Give the experiment a warm-up.",
    ),
    Explanation(
        "CACHE_WARM", "suspect above 10 % of the prompt tokens, else info",
        "Uncached prompt tokens of the two sides that differ by more than a block per request "
        "(two where the drafter recomputes the last block found).",
        "The same prompts a second time: TTFT 217 ms became 112 ms on an H200.",
        "Use 'prefix_cache: reset' in the experiment.",
    ),
    Explanation(
        "CLIENT_STARVED", "invalid from 1 % of the cell",
        "A load generator that did not get the CPU: idle slots and late sends beyond an ordinary "
        "turn-around of 1 or 2 ms each, chunks read several at once, a clock that stepped.",
        "The times then measure this client, not the server.",
        "Leave a CPU to the client, start the server in the same session, use more workers.",
    ),
    Explanation(
        "SHORT_REQUESTS", "suspect",
        "Requests so short that a healthy client's ordinary turn-around is more than 1 % of the "
        "cell: about 1 ms from a request's end to the next one's send, under open loads 2 ms from "
        "the schedule to the send.",
        "That much of the throughput is the client's and the connection's, on both sides alike: a "
        "speed-up looks smaller than it is.",
        "Longer outputs. TTFT and E2E from the send do not hold it.",
    ),
    Explanation(
        "SERVER_STARVED", "suspect from 15 % of the time, info from 3 %; unknown where not seen",
        "The server's processes were ready to run and waited for a CPU, or the hypervisor took "
        "it away: of the time between the samples around first send and last chunk. Runs of "
        "before know the hypervisor's part from the cell's begin to its end, so its share is the "
        "most it can have been. Unknown without samples near the cell.",
        "ngram drafts on the CPU: a busy host slows it and not the baseline.",
        "A quieter machine, more cores for the server, no other work beside it.",
    ),
    Explanation(
        "CPU_BOUND", "info",
        "The engine's thread was on a CPU for more than 90 % of the load, and the card ran kernels "
        "for less than half of it.",
        "A small model on a fast card waits for Python to prepare the next step: figures then tell "
        "of the machine's CPUs, and the same card elsewhere gives others. A 135M model left an "
        "H200 idle for 42 to 90 % of the time; a 32B one kept it busy.",
        "None needed to compare variants on one machine; a larger model, more requests at once or "
        "faster CPUs for the card's own figures.",
    ),
    Explanation(
        "FOREIGN_TRAFFIC", "invalid; info where no token of theirs was counted",
        "The server counted requests that this load did not send: ended ones, or generated tokens "
        "beyond ours with prompt tokens beyond ours or requests in flight while none of ours was.",
        "They took part of every step.",
        "Give the server a port that nobody else knows.",
    ),
    Explanation(
        "CO_TENANT", "invalid; unknown where ownership cannot be told",
        "Somebody else's process on the same GPU during the cell, looked for once a second. "
        "Unknown: no telemetry, a driver that does not say, or process numbers of another "
        "namespace (a container). A run without a GPU does not show it.",
        "It shares the memory bandwidth that decoding lives on.",
        "Another GPU, or another time: --wait-gpu MINUTES waits until the card is idle.",
    ),
    Explanation(
        "THROTTLED", "suspect; a steady power cap is info",
        "Thermal or hardware slowdown in 1 % of the samples (5 Hz), or mean SM clocks that differ "
        "by more than 3 % between starts of one variant at one load.",
        "Part of a speed-up or loss is then clocks: at concurrency 64 a 32B model ran into an "
        "H200's 700 W with EAGLE3 (1503 MHz) and not without (1979 MHz).",
        "Cool the card, lock its clocks below the cap, or read the clocks beside the row.",
    ),
    Explanation(
        "PREEMPTED", "suspect",
        "Preemptions; or, while the batch should be full, more than 5 % of the slots waiting (two "
        "steps a request, in which the next one enters, taken off) or fewer than 95 % of those "
        "running that had their first token and not yet their last.",
        "The batch was smaller than the load's name says; preempted requests are computed twice.",
        "More KV cache, a higher max-num-seqs, shorter outputs, or a lower concurrency.",
    ),
    Explanation(
        "FRONT_END", "info",
        "More than 5 % of the requests in flight were on average neither in the engine's batch nor "
        "in its queue: one API server reads, tokenizes and writes for all of them.",
        "The batch is then smaller than the concurrency, and the model is not what sets the pace.",
        "None needed; longer answers, a larger model or --api-server-count fill the batch.",
    ),
    Explanation(
        "COMPILE_CACHE", "suspect",
        "One side started with compiled kernels on disk, the other without.",
        "The same kernel cost 417 ms cold and 23 ms from the disk.",
        "'compile_cache: per-variant' or 'fresh', or run once more.",
    ),
    Explanation(
        "DEGENERATE", "suspect",
        "Outputs that repeat themselves or run on after their end, where tokens per step before "
        "that, or the TPOT speed-up with it, differ by more than 5 % from the whole. Only of what "
        "drafts: a baseline gains nothing by repetition.",
        "A drafter guesses repetition for nothing: ngram gained 3-5x on a model with dummy "
        "weights.",
        "Sample as in production, let outputs end at EOS, use prompts that ask for long answers.",
    ),
    Explanation(
        "DRIFT", "suspect",
        "The baseline's first and last start differ by more than 3 %: in throughput, confirmed "
        "freezes taken off; in TPOT under open loads, whose throughput is the offered rate. "
        "Without a last start, its first and last round, where they are too few for an interval.",
        "Something changed while measuring, and not for all variants alike.",
        "More rounds, interleaved, on a quiet machine.",
    ),
    Explanation(
        "UNSTEADY", "suspect; info from 10 to 20 %",
        "Starts of the same server under the same load that differ by 20 % and more, the highest "
        "over the lowest: in throughput, confirmed freezes taken off; in TPOT under open loads. "
        "Whether the machine's CPUs ran slower then is told from the CPU time that a token cost "
        "API server and client, and from how long the server took for an answer at rest: longer "
        "steps alone raise the first two.",
        "On a quiet machine they differ by about 1 %. A mean of such starts is luck, and a first "
        "and a last start that happen to agree (no DRIFT) do not show it.",
        "Longer cells, more rounds, a quieter machine; read the interval, not the mean.",
    ),
    Explanation(
        "COPIED_ROUNDS", "suspect (the comparison)",
        "Rounds whose times, or whose ratios, are another round's to a billionth.",
        "Rounds that do not vary would give an interval without width: a certainty that nobody "
        "measured. Starts of one server differ by about 1 %. Copies count once.",
        "Look for a start's folder copied over another's, or a clock that does not run; measure "
        "the missing rounds.",
    ),
    Explanation(
        "TOO_FEW", "strikes a claim only",
        "Fewer samples or rounds than a claim needs: a percentile, full-batch throughput, a win, a "
        "TPOT speed-up over all requests. A row below three rounds is labelled INDICATIVE.",
        "Two starts of one server differ by about 1 %; one round cannot tell that from a gain.",
        "More requests for percentiles, at least three rounds for an interval, five for 2 %.",
    ),
    Explanation(
        "MONITOR_OFF", "unknown",
        "The log has no line saying that the compile monitor was activated.",
        "Compiles then leave no line; freezes are still found, only not named.",
        "None on a CPU; on a GPU vLLM 0.21 or newer, without enforce_eager.",
    ),
    Explanation(
        "NOT_SCRAPED", "unknown",
        "Scrapes of /metrics that do not bracket the cell, or lack a counter that checks need.",
        "Nobody else's requests would be noticed, and acceptance, coverage and prefix-cache hits "
        "are left empty: counted over a part of the cell they would be too low.",
        "See that /metrics answers until the load has ended, then run again.",
    ),
    Explanation(
        "COALESCED", "suspect for step figures only",
        "Chunks that hold several steps of their request, above 1 %.",
        "Step latency, coverage and tokens per step from the stream are then off.",
        "None needed for throughput, TTFT and TPOT; step latency, tokens per step and coverage are "
        "given by the server's own count of steps where it has one.",
    ),
    Explanation(
        "ACCEPTANCE_MISMATCH", "suspect for step figures only",
        "Accepted draft tokens by the server's counters and by the stream that differ by more than "
        "the cut tails of the requests and merged chunks.",
        "Acceptance length, coverage and tokens per step come from these counts.",
        "None needed for throughput, TTFT and TPOT; look for a proxy that regroups the stream.",
    ),
    Explanation(
        "LOSSY", "suspect",
        "Greedy outputs that leave the baseline's at the same batch size at places where the two "
        "best tokens were more than 0.5 nat apart, more often than the baseline leaves itself.",
        "Speculation must not change what is said. Ties may fall either way: a 135M model agreed "
        "with itself across batch sizes in 4 of 16 prompts.",
        "Check the drafter and the rejection method; report it to vLLM if it stays.",
    ),
)  # fmt: skip

CODES = {explanation.code: explanation for explanation in _ALL}
"""Every code of the verdict table."""


def text(explanation: Explanation) -> str:
    """For the terminal."""
    return (
        f"{explanation.code} ({explanation.severity})\n"
        f"  What it sees: {explanation.sees}\n"
        f"  Why it matters: {explanation.matters}\n"
        f"  What to do: {explanation.remedy}"
    )
