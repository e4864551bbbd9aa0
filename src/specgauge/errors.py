"""Errors that end a command with one clear message and the exit code of its kind."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status says."""

    MEASURED = 0
    """Everything measured, no cell INVALID."""
    USAGE = 2
    """Bad command line, configuration or prompts file."""
    INVALID = 3
    """Measured, but at least one cell is INVALID."""
    INCOMPLETE = 4
    """At least one planned cell was not measured."""
    ENVIRONMENT = 5
    """The machine is not fit: port taken, disk full, model or server environment missing."""
    SUSPECT = 6
    """With ``--strict`` only: at least one cell is SUSPECT, none is worse."""
    INTERRUPTED = 130
    """Ctrl-C or TERM; what was measured is kept."""


class SpecgaugeError(Exception):
    """An error whose text is meant for the person at the terminal: no stack trace is shown."""

    exit_code = ExitCode.ENVIRONMENT


class UsageError(SpecgaugeError):
    """What was typed or written in a file cannot be used: names the file, the key, the remedy."""

    exit_code = ExitCode.USAGE


class EnvironmentFault(SpecgaugeError):
    """The machine, not the user's words: port taken, disk full, no model, no server."""

    exit_code = ExitCode.ENVIRONMENT
