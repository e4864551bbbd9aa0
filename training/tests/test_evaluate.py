"""The server measurement's arithmetic."""

from __future__ import annotations

from training.acceptance import Acceptance
from training.compare import first_difference
from training.evaluate import Answer, before_end, counters, difference

PAGE = """# HELP vllm:spec_decode_num_drafts_total Number of drafts.
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 10.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 30.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 9.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 3.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e9
"""


def test_counters_are_read_and_subtracted() -> None:
    assert counters(PAGE) == Acceptance(10, [6, 3])
    assert counters("") == Acceptance()
    assert difference(counters(PAGE), Acceptance(4, [2, 1])) == Acceptance(6, [4, 2])
    assert difference(counters(PAGE), Acceptance()).length == 1.9


def test_steps_count_until_the_turn_ends() -> None:
    ended = Answer(1, "qa", [[5], [6, 7], [8, 2, 9], [1, 1, 1]])
    assert before_end([ended]) == (2, 5)
    assert before_end([Answer(2, "qa", [[2], [3]])]) == (0, 0)


def test_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2
