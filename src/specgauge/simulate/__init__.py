"""A server in vLLM's shape with planted truth: it says exactly what it really did.

In place of ``vllm serve``, for tests of the harness and for learning::

    python -m specgauge.simulate some/model --port 8111 --max-num-seqs 16 \\
        --speculative-config '{"method": "ngram", "num_speculative_tokens": 6}' \\
        --truth '{"step_ms": {"1": 10, "16": 14},
                  "variants": {"ngram": {"coverage": 0.2, "acceptance": [0.6, 0.4]}},
                  "freezes": [{"length_s": 3.2, "at_request": 17, "phase": "before_first_token",
                               "log": "_topk_topp_kernel", "variants": ["ngram"]}]}' \\
        --truth-out truth.jsonl

or, in an experiment, ``server: {command: [python, -m, specgauge.simulate]}`` with the truth in the
environment: ``SPECGAUGE_SIM_TRUTH`` (path or JSON), ``SPECGAUGE_SIM_TRUTH_OUT``.  Tests use
``running.running``, the engine alone (no HTTP, no waiting) ``virtual.run_closed``.

``truth`` holds every key that can be planted, ``truth_log`` what is written down of what happened.
"""
