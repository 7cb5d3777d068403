"""What a reader of a run's figures must know is told while it runs, in its JSON, and whenever it is shown again."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")


@pytest.mark.usefixtures("computed")
def test_past_the_positions_a_model_was_trained_for(evprof, tmp_path) -> None:
    """The bundled pair has 2048 positions: an answer of as many more can pass them, which is told and not refused."""
    session = tmp_path / "long.evprof"
    asked = ("run", "--mode", "target", "--max-new-tokens", "2048", "-o", session)
    found = evprof(*asked, "--json")
    assert found.code == 0, found.errors
    (run,) = found.document["runs"]
    (warning,) = [sentence for sentence in run["warnings"] if "2,048" in sentence]
    assert "positions" in warning
    assert f"warning: {warning}" in found.errors
    assert run["metrics"]["output_sequence_length"] < 2048
    shown = evprof("show", session)
    assert f"  warning: {warning}" in shown.output.splitlines()
    assert evprof("show", session, "--json").document["runs"][0]["warnings"] == run["warnings"]
    short = evprof("run", "--mode", "target", "--max-new-tokens", "8", "--json").document
    assert short["runs"][0]["warnings"] == []
