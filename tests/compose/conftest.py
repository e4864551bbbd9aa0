"""Makes the fixtures of the modules beside it known to the tests in this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "run"))

from compose_checkout import checkout  # noqa: F401
from compose_stack import stack  # noqa: F401
