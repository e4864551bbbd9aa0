"""YAML that is more than plain values, or too much of it: one message with its line, no crash."""

from pathlib import Path

import pytest

from specgauge.config.yaml_text import parse
from specgauge.errors import UsageError

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k: 1\n? [a, b]\n: 1\n", "f.yaml:2: a key must be text, not a list or a mapping"),
        ("k: 1\n? {a: b}\n: 1\n", "f.yaml:2: a key must be text"),
        ("k: 1\n5: 2\n", "f.yaml:2: the key 5 must be text: put it in quotes"),
        ("k: {on: 2}\n", "f.yaml:1: the key on must be text"),
        ("k: &a\n  m: *a\n", "an alias stands for what contains it"),
        ("k: &a [*a]\n", "an alias stands for what contains it"),
        ("k: " + "[" * 5000, "f.yaml:1: nested too deeply"),
        ("- " * 300 + "x", "nested too deeply"),
        (BOMB, "values, aliases written out"),
        ("k: 1\nm: {n: 2024-01-01}\n", "f.yaml:2: m.n: a date cannot be used here"),
        ("m: [1, 2024-01-01 10:00:00]\n", "f.yaml:1: m.1: a date cannot be used here"),
        ("m: !!set {a}\n", "f.yaml:1: m: a set cannot be used here"),
        ("m: !!binary aGk=\n", "f.yaml:1: m: a binary value cannot be used here"),
        ("k: 1\nm: .inf\n", "f.yaml:2: m: must be a finite number"),
        ("m: .nan\n", "must be a finite number"),
        ("k: 1\nm: 2024-13-45\n", "f.yaml:2: a value cannot be read: month"),
        ("k: 1\nm: " + "9" * 5000 + "\n", "f.yaml:2: a value cannot be read"),
        ("m: !!bool maybe\n", "f.yaml:1: a value cannot be read"),
        ('m: "\\ud800"\n', "f.yaml:1: m: holds half of a surrogate pair"),
        ('m: "a\\0b"\n', "f.yaml:1: m: holds a NUL character"),
        ("m: !!python/object:os.system x\n", "f.yaml:1: not valid YAML"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, Path("f.yaml"))
    assert expected in str(caught.value)


def test_merge_keys_are_written_out_and_a_mapping_s_own_keys_win() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\nd:\n  <<: [*a, {z: 1}]\n"
    value, lines = parse(text, Path("f.yaml"))
    assert value["b"] == {"x": 1, "y": 3}
    assert value["c"] == value["a"] == {"x": 1, "y": 2}
    assert value["d"] == {"x": 1, "y": 2, "z": 1}
    assert lines["b", "y"] == 2


def test_an_alias_used_twice_is_no_cycle() -> None:
    assert parse("a: &a [1]\nb: [*a, *a]\n", Path("f"))[0] == {"a": [1], "b": [[1], [1]]}


def test_an_empty_file_has_no_value() -> None:
    assert parse("# nothing\n", Path("f"))[0] is None
