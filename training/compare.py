"""Compare the answers of two `evaluate.py` files, token for token.

python -m training.compare vanilla.json drafted.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def first_difference(left: list[int], right: list[int]) -> int | None:
    """Index of the first differing token; None if the answers are equal."""
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs=2)
    arguments = parser.parse_args()
    left, right = (json.loads(path.read_text())["answers"] for path in arguments.files)
    common = [question for question in left if question in right]
    found = {question: first_difference(left[question], right[question]) for question in common}
    different = {question: index for question, index in found.items() if index is not None}
    print(f"{len(common) - len(different)} of {len(common)} answers are equal")
    for question, index in different.items():
        print(f"question {question}: first difference at token {index}")


if __name__ == "__main__":
    main()
