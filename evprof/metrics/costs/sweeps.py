"""Runs of one model that differ only in how much they saw: stages over frames or clip lengths, with fitted slopes.

Which runs belong together is decided here for window, report and command line. Intervals at a point know samples and
engine processes (`evprof.metrics.estimates`), those of slopes samples (`evprof.metrics.arithmetic.scaling`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from evprof.core.records import STAGES
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.units import number_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.scaling import FEWEST_OF_TWO, FittedLine, fit_line
from evprof.metrics.configurations.attempts import last_attempts
from evprof.metrics.configurations.gathering import is_comparable, sample_key, warm_of
from evprof.metrics.configurations.settings_text import settings_of
from evprof.metrics.estimates.estimates import Estimate, Read, mean_of, observe, scene_of
from evprof.metrics.figures.decoding import decode_ms_per_token, frames_shown
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes, ceiling_of, sizes_of
from evprof.metrics.limits.workload import Work, works_of

DECODE_STEP = "decode per token"
"""What grows of decode: the stage itself is as long as the answer."""


def _clip_seconds(run: RunLog) -> float | None:
    lasts = run.info.sample.duration_us
    return None if lasts is None else lasts / 1e6


def _of_one_scene(run: RunLog) -> Hashable:
    return scene_of(run), run.info.sample.start_us, run.info.sample.prompt


@dataclass(frozen=True)
class SweepAxis:
    """What runs of a sweep saw more or less of: `noun` is one of it, `amounts` names several amounts, `group` is what
    runs must share to be of one sample, `ignored` the settings that may differ."""

    key: str
    noun: str
    amounts: str
    read: Read
    group: Callable[[RunLog], Hashable]
    ignored: tuple[str, ...] = ()

    @property
    def plural(self) -> str:
        return f"{self.noun}s"


FRAMES = SweepAxis("frames", "frame", "numbers of frames", frames_shown, sample_key, ("frames",))
SECONDS = SweepAxis("clip_s", "second", "lengths of clip", _clip_seconds, _of_one_scene)
AXES = (FRAMES, SECONDS)


@dataclass(frozen=True)
class Sweep:
    """Runs of one model under one setting that saw different amounts. `name` tells sweeps apart, `model` is the
    model's."""

    name: str
    role: str
    runs: tuple[RunLog, ...]
    model: str = ""
    axis: SweepAxis = FRAMES

    def places(self) -> list[float]:
        return sorted(place for place in self._by_place if place is not None)

    def points(self, read: Read, across: Read | None = None) -> tuple[list[float], list[float], list[Hashable]]:
        """Amount (or what `across` reads), the figure, and the sample of every run that has them."""
        found = [((across or self.axis.read)(run), read(run), self.axis.group(run)) for run in self.runs]
        kept = [(x, value, key) for x, value, key in found if x is not None and value is not None]
        return [float(x) for x, _, _ in kept], [value for _, value, _ in kept], [key for _, _, key in kept]

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
    by_model: dict[tuple[str, str], list[RunLog]] = {}
    for run in runs:
        model = run.info.models.get(run.info.role)
        if model is not None and not mode_of(run.info.mode).is_paired and axis.read(run) is not None:
            by_model.setdefault((model.name, run.info.role), []).append(run)
    found: dict[tuple[object, ...], list[RunLog]] = {}
    for (name, role), listed in by_model.items():
        # Settings last: working them out takes a while, and sessions hold thousands of runs.
        if not _differ(listed, axis):
            continue
        for run in listed:
            equal = tuple(
                (setting.key, setting.text)
                for setting in settings_of(run, role)
                if setting.key not in (*axis.ignored, "max_new_tokens")
            )
            found.setdefault((name, role, equal), []).append(run)
    many = {key: together for key, together in found.items() if _differ(together, axis)}
    names = [str(key[0]) for key in many]
    return [
        Sweep(
            str(key[0]) if names.count(str(key[0])) == 1 else f"{key[0]} ({place})",
            str(key[1]),
            tuple(together),
            str(key[0]),
            axis,
        )
        for place, (key, together) in enumerate(many.items(), start=1)
    ]


def _differ(runs: Iterable[RunLog], axis: SweepAxis) -> bool:
    return len({axis.read(run) for run in runs}) > 1


@dataclass(frozen=True)
class RoofShare:
    """How near its ceiling a stage ran: `figure` is "MFU" or "MBU", `share` None where no ceiling was measured."""

    stage: str
    figure: str
    share: float | None


@dataclass(frozen=True)
class SweepPoint:
    """All runs that saw `place` of a sweep: stages in ms (of all five those that were measured), what they take
    together, and shares of the roof."""

    place: float
    stages: dict[str, Estimate]
    run_ids: tuple[int, ...]
    total: Estimate | None
    roof: tuple[RoofShare, ...] = ()


@dataclass(frozen=True)
class StageSlope:
    """How a stage (or DECODE_STEP) grows over a sweep, and what can be said of it."""

    stage: str
    line: FittedLine
    axis: SweepAxis

    @property
    def verdict(self) -> str:
        """`grows`, `too few runs` or another: see `verdict_of`."""
        return verdict_of(self.line)

    @property
    def basis(self) -> str:
        """`9 runs at 3 numbers of frames`."""
        return basis_text(self.line, self.axis)

    @property
    def sentence(self) -> str:
        return slope_sentence(self.line, self.axis)


@dataclass(frozen=True)
class Ribbon:
    sweep: Sweep
    points: tuple[SweepPoint, ...]
    slopes: tuple[StageSlope, ...]

    @property
    def run_count(self) -> int:
        return len(self.sweep.runs)


def ribbons_of(
    runs: Sequence[RunLog],
    noted: dict[str, ModelSizes] | None = None,
    ceilings: Sequence[DeviceCeiling] = (),
) -> list[Ribbon]:
    """Every sweep that a session's finished runs hold, over frames first; warm-up and profiled runs stay out, and cold
    ones wherever there are others."""
    kept = [run for run in last_attempts(runs) if is_comparable(run) and run.info.status == FINISHED]
    return [_ribbon(sweep, noted or {}, ceilings) for axis in AXES for sweep in sweeps_of(_warm(kept), axis)]


def _warm(runs: Sequence[RunLog]) -> list[RunLog]:
    """Without the cold ones of every request or cell that has others."""
    together: dict[object, list[RunLog]] = {}
    for run in runs:
        place = (run.info.cell or run.info.group_id, run.info.mode, run.info.role)
        together.setdefault(place, []).append(run)
    return [run for some in together.values() for run in warm_of(some)]


def _ribbon(sweep: Sweep, noted: dict[str, ModelSizes], ceilings: Sequence[DeviceCeiling]) -> Ribbon:
    points = tuple(_point(sweep.at(place), place, noted, ceilings) for place in sweep.places())
    slopes = []
    for stage in (*STAGES[:-1], DECODE_STEP):
        line = fit_line(*sweep.points(_reader(stage)))
        if line is not None:
            slopes.append(StageSlope(stage, line, sweep.axis))
    return Ribbon(sweep, points, tuple(slopes))


def _reader(stage: str) -> Read:
    return decode_ms_per_token if stage == DECODE_STEP else lambda run: stage_ms(run, stage)


def _point(
    runs: list[RunLog],
    place: float,
    noted: dict[str, ModelSizes],
    ceilings: Sequence[DeviceCeiling],
) -> SweepPoint:
    stages = {stage: found for stage in STAGES if (found := mean_of(observe(runs, _reader(stage)))) is not None}
    total = mean_of(observe(runs, lambda run: _sum(run, tuple(stages))))
    roof = roof_of(runs, noted, ceilings)
    return SweepPoint(place, stages, tuple(run.run_id for run in runs), total, roof)


def _sum(run: RunLog, names: tuple[str, ...]) -> float | None:
    """These stages of a run together; None where one of them is not told."""
    spent = [stage_ms(run, name) for name in names]
    known = [value for value in spent if value is not None]
    return sum(known) if spent and len(known) == len(spent) else None


def roof_of(
    runs: Sequence[RunLog], noted: dict[str, ModelSizes], ceilings: Sequence[DeviceCeiling]
) -> tuple[RoofShare, ...]:
    """How near the machine's ceilings runs of one configuration came, stage by stage; nothing where the answering
    model's sizes are not known."""
    first = runs[0]
    sizes = sizes_of(first.info.models.get(first.info.role), noted)
    if sizes is None:
        return ()
    ceiling = ceiling_of(first, first.info.role, ceilings)
    return tuple(_roof_share(work, ceiling) for work in works_of(runs, sizes))


def _roof_share(work: Work, ceiling: DeviceCeiling | None) -> RoofShare:
    """Vision and prefill are judged by their arithmetic, decode by what it reads."""
    figure = "MBU" if work.stage == "decode" else "MFU"
    if ceiling is None:
        return RoofShare(work.stage, figure, None)
    return RoofShare(work.stage, figure, work.mbu(ceiling) if figure == "MBU" else work.mfu(ceiling))


GROWS, SHRINKS, FLAT, UNCLEAR, TOO_FEW = "grows", "shrinks", "flat", "unclear", "too few runs"
"""What can be said of a slope; UNCLEAR: its interval holds 0, and changes that are not small as well."""


def verdict_of(line: FittedLine) -> str:
    if line.slope_interval is None:
        return TOO_FEW
    if line.is_flat:
        return FLAT
    if line.holds_zero:
        return UNCLEAR
    return GROWS if line.slope > 0 else SHRINKS


def slope_text(line: FittedLine) -> str:
    """`+49.1`, with three digits."""
    return f"{'+' * (line.slope > 0)}{number_text(line.slope, 3)}"


def ends_text(line: FittedLine) -> str:
    """`47.8 to 50.4`; empty without an interval, or where it is one of rounding errors."""
    low, high = line.slope_interval or (line.slope, line.slope)
    if high - low <= 1e-9 * max(1.0, abs(line.slope)):
        return ""
    return f"{number_text(low, 3)} to {number_text(high, 3)}"


def has_single_runs(line: FittedLine) -> bool:
    """Whether nothing was measured twice, so that only the line itself tells how runs spread."""
    return line.count == line.places


def basis_text(line: FittedLine, axis: SweepAxis) -> str:
    """`9 runs at 3 numbers of frames`, `one run at each of 3 …`, and where it is uneven how few are at one of them."""
    if has_single_runs(line):
        return f"one run at each of {line.places} {axis.amounts}"
    text = f"{line.count} runs at {line.places} {axis.amounts}"
    return (
        f"{text}, only {line.fewest} at one of them"
        if line.fewest < min(FEWEST_OF_TWO, line.count / line.places)
        else text
    )


_MEANING = {
    FLAT: "flat",
    UNCLEAR: "not told apart from flat",
}


def slope_sentence(line: FittedLine, axis: SweepAxis, unit: str = "ms") -> str:
    """`+49.1 ms per extra second (47.8 to 50.4), from 9 runs at 3 lengths of clip`, and the like for other verdicts."""
    per, verdict, ends = f"{unit} per extra {axis.noun}", verdict_of(line), ends_text(line)
    basis = f"from {basis_text(line, axis)}"
    if verdict == TOO_FEW:
        more = f"three {axis.amounts}, or {FEWEST_OF_TWO} runs at each of two, would tell"
        return f"{slope_text(line)} {per}, {basis}: {TOO_FEW}; {more}"
    if verdict in _MEANING:
        return f"{ends or slope_text(line)} {per}: {_MEANING[verdict]}, {basis}"
    return f"{slope_text(line)} {per}" + (f" ({ends})" if ends else "") + f", {basis}"
