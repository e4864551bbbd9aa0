"""Makes the fixture of ``compose_stack.py`` known to the tests in this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from compose_stack import stack  # noqa: F401
