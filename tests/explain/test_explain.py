"""Every code that a check can give is explained, and the command finds it."""

from __future__ import annotations

import importlib
import pkgutil

from click.testing import CliRunner

from specgauge.analyze import validity
from specgauge.cli import main
from specgauge.errors import ExitCode
from specgauge.explain.codes import CODES


def test_every_check_s_code_is_explained() -> None:
    given = set()
    for module in pkgutil.iter_modules(validity.__path__, f"{validity.__name__}."):
        code = getattr(importlib.import_module(module.name), "CODE", None)
        assert code in CODES, module.name
        given.add(code)
    assert len(given) > 15


def test_a_code_is_printed_whatever_its_case() -> None:
    done = CliRunner().invoke(main, ["explain", "freeze"])
    assert "CONFIRMED ONE-OFF" in done.output
    assert "JIT (" not in done.output
    assert all(code in CliRunner().invoke(main, ["explain"]).output for code in CODES)


def test_an_unknown_code_is_a_usage_error() -> None:
    done = CliRunner().invoke(main, ["explain", "FREZE"])
    assert done.exit_code == ExitCode.USAGE
    assert "did you mean FREEZE?" in done.stderr
    assert "there are INCOMPLETE" in CliRunner().invoke(main, ["explain", "qqqqq"]).stderr
