"""What tokens cost as JSON of a run and of a session (keys are a contract; see docs/json.md), for readers without a
window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.costs.second_costs import second_costs
from evprof.metrics.costs.sweeps import Ribbon, StageSlope, SweepPoint, ribbons_of
from evprof.metrics.costs.visual_costs import visual_costs
from evprof.metrics.estimates.estimates import Estimate
from evprof.metrics.limits.sizes import read_ceilings, read_models, sizes_of


def visual_document(run: RunLog, role: str | None = None) -> dict[str, Any] | None:
    """What the visual tokens of one model of a run cost, in all and by frame; None where there are none to tell of."""
    role = role or run.info.role
    found = visual_costs(run, role, sizes_of(run.info.models.get(role), {}))
    if found is None:
        return None
    return {
        **asdict(found.whole),
        "first_token_share": found.share_of_first_token,
        "sensor_s": found.sensor_s,
        "shared": asdict(found.shared),
        "frames": [
            {
                "frame": entry.frame,
                "label": entry.label,
                "start_us": entry.start_us,
                "end_us": entry.end_us,
                **asdict(entry.cost),
            }
            for entry in found.frames
        ],
        "not_known": list(found.why),
    }


def second_document(run: RunLog, role: str, motions: Sequence[float | None]) -> dict[str, Any] | None:
    """What a second of input costs one model of a run, in all and by frame; None where that is not known."""
    costs = visual_costs(run, role, sizes_of(run.info.models.get(role), {}))
    found = None if costs is None else second_costs(run, role, costs, motions)
    if found is None:
        return None
    return {
        "run_id": run.run_id,
        "role": role,
        "reads": found.reads,
        **asdict(found.whole),
        "frames": [
            {"frame": entry.frame, found.activity_key: entry.activity, **asdict(entry.cost)} for entry in found.frames
        ],
    }


def scaling_document(runs: Sequence[RunLog], facts: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Every sweep over frames or clip lengths that these runs hold. `facts` are the session's: shapes and ceilings."""
    told = facts or {}
    ribbons = ribbons_of(runs, read_models([told.get("models")]), read_ceilings([told.get("ceilings")]))
    return [_ribbon(ribbon) for ribbon in ribbons]


def _ribbon(ribbon: Ribbon) -> dict[str, Any]:
    return {
        "model": ribbon.sweep.model,
        "role": ribbon.sweep.role,
        "axis": ribbon.sweep.axis.key,
        "runs": ribbon.run_count,
        "points": [_point(point) for point in ribbon.points],
        "slopes": [_slope(slope) for slope in ribbon.slopes],
    }


def _point(point: SweepPoint) -> dict[str, Any]:
    return {
        "at": point.place,
        "run_ids": list(point.run_ids),
        "total": None if point.total is None else _estimate(point.total),
        "stages": {stage: _estimate(found) for stage, found in point.stages.items()},
        "roof": [{"stage": share.stage, "figure": share.figure, "share": share.share} for share in point.roof],
    }


def _slope(slope: StageSlope) -> dict[str, Any]:
    interval = slope.line.slope_interval
    return {
        "stage": slope.stage,
        "ms_per_step": slope.line.slope,
        "ci95": None if interval is None else list(interval),
        "runs": slope.line.count,
        "amounts": slope.line.places,
        "fewest_runs": slope.line.fewest,
        "verdict": slope.verdict,
        "sentence": slope.sentence,
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {"ms": found.value, "ci95": None if found.interval is None else list(found.interval)}
