"""What the load generator's container runs: one variant's starts, recorded, then exit 0.

A server that dies or never becomes ready is a result, recorded as such; the analysis behind this
container judges it.  Another exit code means that there is nothing to analyse.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from specgauge.errors import EnvironmentFault, ExitCode, SpecgaugeError
from specgauge.serve.control import FOLDER, Control, hold


def main() -> int:
    """``python -m specgauge.stack.loadgen VARIANT``; the rest comes from the environment."""
    control = Control(Path(os.environ[FOLDER]) / sys.argv[1])
    # First of all: from here on the server's container ends when this process does.
    lock = hold(control.client_lock)
    code: int = ExitCode.ENVIRONMENT
    try:
        if lock is None:
            raise EnvironmentFault(
                f"another load generator of {control.folder.name!r} runs in this project"
            )
        control.report(None, "it has not ended yet", ExitCode.INCOMPLETE)
        code = _generate(control)
    except SpecgaugeError as error:
        print(f"specgauge: {error}", file=sys.stderr)
        code = int(error.exit_code)
        control.report(None, str(error), code)
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
        control.report(None, "interrupted", code)
    except Exception as error:
        traceback.print_exc()
        control.report(None, f"{type(error).__name__}: {error}", code)
    finally:
        if lock is not None:
            control.quit()
            os.close(lock)
    return code


def _generate(control: Control) -> int:
    # Not at the top: the lock must be held before a second is spent on pandas and Locust.
    from rich.console import Console

    from specgauge.config.project import find_project
    from specgauge.stack.generate import generate

    console = Console(width=None if sys.stdout.isatty() else 160)
    return generate(control, find_project(), dict(os.environ), console)


if __name__ == "__main__":
    sys.exit(main())
