"""What the load generator's container runs: one variant's starts, recorded, then exit 0.

A server that dies or never becomes ready is a result, recorded as such; the analysis behind this
container judges it.  Another exit code means that there is nothing to analyse.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from specgauge.errors import ExitCode, SpecgaugeError
from specgauge.interrupts import terminate_as_interrupt
from specgauge.serve.control import FOLDER, Control, hold


def main() -> int:
    """``python -m specgauge.stack.loadgen VARIANT``; the rest comes from the environment."""
    with terminate_as_interrupt():  # PID 1 hears no TERM that it does not handle
        return _hold_and_generate(Control(Path(os.environ[FOLDER]) / sys.argv[1]))


def _hold_and_generate(control: Control) -> int:
    # First of all: from here on the server's container ends when this process does.
    lock = hold(control.client_lock)
    if lock is None:
        name = control.folder.name
        print(f"specgauge: another load generator of {name!r} runs in this project")
        return ExitCode.ENVIRONMENT
    control.report(None, "it has not ended yet", ExitCode.INCOMPLETE)
    try:
        return _generate(control)
    except SpecgaugeError as error:
        print(f"specgauge: {error}")
        control.report(None, str(error), error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        control.report(None, "interrupted", ExitCode.INTERRUPTED)
        return ExitCode.INTERRUPTED
    except Exception as error:
        traceback.print_exc()
        control.report(None, f"{type(error).__name__}: {error}", ExitCode.ENVIRONMENT)
        return ExitCode.ENVIRONMENT
    finally:
        control.quit()
        os.close(lock)


def _generate(control: Control) -> int:
    # Not at the top: the lock must be held before a second is spent on pandas and Locust.
    from rich.console import Console

    from specgauge.config.project import find_project
    from specgauge.stack.generate import generate

    console = Console(width=None if sys.stdout.isatty() else 160)
    return generate(control, find_project(), dict(os.environ), console)


if __name__ == "__main__":
    sys.exit(main())
