"""Runs of one model that differ only in how much they saw: stages over frames or clip lengths, with fitted slopes.

The window, the report and the command line share this choice of runs. Intervals at a point follow
`evprof.metrics.estimates`, those of slopes `evprof.metrics.arithmetic.scaling`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

from evprof.core.records import STAGES
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.units import number_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.scaling import FEWEST_OF_TWO, FittedLine, fit_line
from evprof.metrics.configurations.gathering import configuration_key, is_comparable, last_attempts, sample_key, warm_of
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.costs.visual_costs import visual_costs
from evprof.metrics.estimates.estimates import mean_of
from evprof.metrics.estimates.observations import Read, observe, scene_of
from evprof.metrics.figures.decoding import decode_ms_per_token, frames_shown
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes, ceiling_of, read_ceilings, read_models, sizes_of
from evprof.metrics.limits.workload import works_of

DECODE_STEP = "decode per token"
"""The part of decode that grows: the stage itself is as long as the answer."""


def _clip_seconds(run: RunLog) -> float | None:
    duration_us = run.info.sample.duration_us
    return None if duration_us is None else duration_us / 1e6


def _of_one_scene(run: RunLog) -> Hashable:
    return scene_of(run), run.info.sample.start_us, run.info.sample.prompt


@dataclass(frozen=True)
class SweepAxis:
    """What runs of a sweep saw more or less of: `noun` is one of it, `amounts` names several amounts, `group` is what
    runs of one sample share, `ignored` the settings that may differ."""

    key: str
    noun: str
    amounts: str
    read: Read
    group: Callable[[RunLog], Hashable]
    ignored: tuple[str, ...] = ()


FRAMES = SweepAxis("frames", "frame", "numbers of frames", frames_shown, sample_key, ("frames",))
SECONDS = SweepAxis("clip_s", "second", "lengths of clip", _clip_seconds, _of_one_scene)
AXES = (FRAMES, SECONDS)


@dataclass(frozen=True)
class Sweep:
    """Runs of one model under one setting that saw different amounts. `name` is unique, `model` is the model's."""

    name: str
    role: str
    runs: tuple[RunLog, ...]
    model: str = ""
    axis: SweepAxis = FRAMES

    def places(self) -> list[float]:
        """The amounts, ascending."""
        return sorted(place for place in self._by_place if place is not None)

    def points(self, read: Read) -> tuple[list[float], list[float], list[Hashable]]:
        """The amount, the figure and the sample of every run that has them."""
        found = [(self.axis.read(run), read(run), self.axis.group(run)) for run in self.runs]
        kept = [(float(x), value, key) for x, value, key in found if x is not None and value is not None]
        return [x for x, _, _ in kept], [value for _, value, _ in kept], [key for _, _, key in kept]

    def at(self, place: float) -> list[RunLog]:
        return self._by_place.get(place, [])

    @cached_property
    def _by_place(self) -> dict[float | None, list[RunLog]]:
        found: dict[float | None, list[RunLog]] = {}
        for run in self.runs:
            found.setdefault(self.axis.read(run), []).append(run)
        return found


def sweeps_of(runs: Iterable[RunLog], axis: SweepAxis = FRAMES) -> list[Sweep]:
    """Models under equal settings that saw at least two different amounts."""
    found: dict[tuple[Hashable, ...], list[RunLog]] = {}
    for run in runs:
        model, role = run.info.models.get(run.info.role), run.info.role
        if model is not None and not mode_of(run.info.mode).is_paired and axis.read(run) is not None:
            free = (*axis.ignored, "max_new_tokens")
            equal = tuple((one.key, one.text) for one in settings_of(run, role) if one.key not in free)
            found.setdefault((model.name, role, equal), []).append(run)
    many = {key: listed for key, listed in found.items() if len({axis.read(run) for run in listed}) > 1}
    names = [str(key[0]) for key in many]
    return [
        Sweep(name if names.count(name) == 1 else f"{name} ({place})", str(key[1]), tuple(listed), name, axis)
        for place, (name, (key, listed)) in enumerate(zip(names, many.items(), strict=True), start=1)
    ]


def roof_of(
    runs: Sequence[RunLog], noted: dict[str, ModelSizes], ceilings: Sequence[DeviceCeiling]
) -> list[dict[str, Any]]:
    """The share of the machine's ceiling that each stage reached: decode by bytes (MBU), others by operations (MFU).

    `share` is None where no ceiling was measured. Empty where the sizes of the answering model are unknown.
    """
    info = runs[0].info
    sizes, ceiling = sizes_of(info.models.get(info.role), noted), ceiling_of(runs[0], info.role, ceilings)
    found = []
    for work in works_of(runs, sizes) if sizes is not None else ():
        figure = "MBU" if work.stage == "decode" else "MFU"
        share = None if ceiling is None else work.mbu(ceiling) if figure == "MBU" else work.mfu(ceiling)
        found.append({"stage": work.stage, "figure": figure, "share": share})
    return found


GROWS, SHRINKS, FLAT, UNCLEAR, TOO_FEW = "grows", "shrinks", "flat", "unclear", "too few runs"
"""Verdicts on a slope; UNCLEAR: its interval contains 0, and changes that are not small as well."""


def verdict_of(line: FittedLine) -> str:
    """One of GROWS, SHRINKS, FLAT, UNCLEAR and TOO_FEW."""
    if line.slope_interval is None:
        return TOO_FEW
    if line.is_flat:
        return FLAT
    if line.holds_zero:
        return UNCLEAR
    return GROWS if line.slope > 0 else SHRINKS


def slope_sentence(line: FittedLine, axis: SweepAxis) -> str:
    """`+49.1 ms per extra second (47.8 to 50.4), from 9 runs at 3 lengths of clip`, and similar for other verdicts."""
    per, verdict, slope = f"ms per extra {axis.noun}", verdict_of(line), number_text(line.slope, 3)
    signed = f"{'+' * (line.slope > 0)}{slope}"
    low, high = line.slope_interval or (line.slope, line.slope)
    # An interval of rounding errors is none.
    has_ends = high - low > 1e-9 * max(1.0, abs(line.slope))
    ends = f"{number_text(low, 3)} to {number_text(high, 3)}" if has_ends else ""
    basis = f"from {line.count} runs at {line.places} {axis.amounts}"
    if line.count == line.places:
        basis = f"from one run at each of {line.places} {axis.amounts}"
    elif line.fewest < min(FEWEST_OF_TWO, line.count / line.places):
        basis += f", only {line.fewest} at one of them"
    if verdict == TOO_FEW:
        more = f"three {axis.amounts}, or {FEWEST_OF_TWO} runs at each of two, would tell"
        return f"{signed} {per}, {basis}: {TOO_FEW}; {more}"
    if verdict in (FLAT, UNCLEAR):
        return f"{ends or signed} {per}: {'flat' if verdict == FLAT else 'not told apart from flat'}, {basis}"
    return f"{signed} {per}{f' ({ends})' if ends else ''}, {basis}"


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


def scaling_document(runs: Sequence[RunLog], facts: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Every sweep that the finished runs of a session hold, over frames first. `facts` are the session's.

    Warm-up and profiled runs are left out, and cold ones wherever there are others.
    """
    noted, ceilings = read_models([(facts or {}).get("models")]), read_ceilings([(facts or {}).get("ceilings")])
    requests: dict[Hashable, list[RunLog]] = {}
    for run in last_attempts(runs):
        if is_comparable(run) and run.info.status == FINISHED:
            requests.setdefault(configuration_key(run.info), []).append(run)
    warm = [run for listed in requests.values() for run in warm_of(listed)]
    return [
        {
            "model": sweep.model,
            "role": sweep.role,
            "axis": axis.key,
            "runs": len(sweep.runs),
            "points": [_point(place, sweep.at(place), noted, ceilings) for place in sweep.places()],
            "slopes": list(_slopes(sweep)),
        }
        for axis in AXES
        for sweep in sweeps_of(warm, axis)
    ]


def _point(
    place: float, runs: Sequence[RunLog], noted: dict[str, ModelSizes], ceilings: Sequence[DeviceCeiling]
) -> dict[str, Any]:
    """All runs that saw one amount: the measured stages in ms, their sum, and shares of the roof."""
    means = {stage: mean_of(observe(runs, _reader(stage))) for stage in STAGES}
    stages = {stage: {"ms": mean} for stage, mean in means.items() if mean is not None}
    total = mean_of(observe(runs, partial(_sum, names=tuple(stages))))
    return {
        "at": place,
        "run_ids": [run.run_id for run in runs],
        "total": None if total is None else {"ms": total},
        "stages": stages,
        "roof": roof_of(runs, noted, ceilings),
    }


def _slopes(sweep: Sweep) -> Iterator[dict[str, Any]]:
    """How every stage, and a step of decode, grows."""
    for stage in (*STAGES[:-1], DECODE_STEP):
        line = fit_line(*sweep.points(_reader(stage)))
        if line is not None:
            yield {
                "stage": stage,
                "ms_per_step": line.slope,
                "ci95": None if line.slope_interval is None else list(line.slope_interval),
                "runs": line.count,
                "amounts": line.places,
                "fewest_runs": line.fewest,
                "verdict": verdict_of(line),
                "sentence": slope_sentence(line, sweep.axis),
            }


def _reader(stage: str) -> Read:
    return decode_ms_per_token if stage == DECODE_STEP else lambda run: stage_ms(run, stage)


def _sum(run: RunLog, names: tuple[str, ...]) -> float | None:
    known = [value for name in names if (value := stage_ms(run, name)) is not None]
    return sum(known) if names and len(known) == len(names) else None
