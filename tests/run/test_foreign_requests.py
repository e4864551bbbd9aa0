"""Somebody else's request on our server, the whole command line: named, no miscount."""

from __future__ import annotations

import pytest
from project import SimulatedProject, no_trace

pytestmark = pytest.mark.system


def test_one_that_outlives_the_cells_is_foreign_and_no_miscount(project: SimulatedProject) -> None:
    """It begins with the server and runs for a minute and more; both cells are over before."""
    project.truth["foreign"] = {"rate": 0.001, "tokens": 9000}
    project.experiment["variants"] = ["vanilla"]
    done = project.run()
    assert done.returncode == 3, done.stderr
    assert no_trace(done)
    for cell in project.summary()["cells"]:
        codes = {reason["code"] for reason in cell["reasons"]}
        assert "FOREIGN_TRAFFIC" in codes
        assert "TOKEN_MISMATCH" not in codes
