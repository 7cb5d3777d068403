"""The facts of a run: one list of names and values that every part of the program renders.

The run list, the inspector, the panels, the terminal, reports and notebooks show facts from here. A fact names the
runs that its value stands for, so that no reader shows a mean beside a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evprof.core.run_info import KvFacts, KvLayout
from evprof.core.run_log import RunLog
from evprof.core.texts import one_line
from evprof.core.units import amount_text, bytes_text, count_text, ms_text, percent_text, times_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import CHOICE, EXACT, LETTERS, RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.configurations.settings_text import ToldSetting, told_settings
from evprof.metrics.estimates.estimates import mean_of
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures import kv_cache, stages
from evprof.metrics.figures.energy import computing_devices, energy_document, throttle_sentence, throttled_devices
from evprof.metrics.figures.scores import named_letter, score
from evprof.metrics.speculation.outcome import FEWEST_REJECTIONS, acceptance, ceiling_of, is_tree
from evprof.metrics.speculation.payoff import Payoff
from evprof.metrics.speculation.verdicts import payoff_sentence

SETTINGS, ACCURACY, IMPORTED, FIGURE, LOADING = "Settings", "Accuracy", "Imported", "Figures", "Loading"
KV_CACHE, LAYOUT, ENERGY, GPU, DRAFTING = "KV cache", "Cache layout", "Energy", "GPU", "Draft acceptance"
CLOCKS, WARNINGS = "Clocks", "Warnings"

LONGEST = 1000
"""Characters of a text that are shown in full."""


@dataclass(frozen=True)
class Fact:
    """One fact. `value` is None where nothing was measured; `unit` is "" for text and counts, "share" for 0…1.

    `origin` says how the value was obtained; `runs` are the numbers of all runs that it stands for. `key` is the
    figure's key in JSON, if there is one. `tone` is "good", "bad", "warn", "accent" (not at the default) or "".
    """

    section: str
    runs: tuple[int, ...]
    name: str
    value: float | str | None
    unit: str = ""
    origin: str = ""
    key: str = ""
    tone: str = ""
    interval: Sequence[float] | None = None
    """95 % of the value, where it is a mean or a ratio over several runs."""

    @property
    def text(self) -> str:
        """The value with its unit; "" where nothing was measured."""
        return "" if self.value is None else value_text(self.value, self.unit)


def value_text(value: float | str, unit: str) -> str:
    """A value for people: `66.2 ms`, `6.25 MiB`, `12.0 %`, `41.2 tok/s`, `1,204`."""
    if isinstance(value, str):
        return one_line(f"{value} {unit}", LONGEST)
    if unit in ("", "tokens"):
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    if unit in _TEXTS:
        return _TEXTS[unit](value)
    return amount_text(value, unit) if unit in ("J", "W") else f"{value:,.1f} {unit}"


_TEXTS: Mapping[str, Callable[[float], str]] = {
    "ms": ms_text,
    "bytes": bytes_text,
    "share": lambda value: percent_text(value, 1),
    "×": times_text,
}


def facts(run: RunLog, role: str | None = None, sections: Collection[str] | None = None) -> list[Fact]:
    """The facts of one model of a run (the answering model's by default), in order of presentation.

    `sections` limits the list to these sections; the others are not computed. Facts without a value are left out.
    """
    role = role or run.info.role
    listed = _SECTIONS if sections is None else {name: _SECTIONS[name] for name in _SECTIONS if name in sections}
    return [fact for build in listed.values() for fact in build(run, role) if fact.value not in (None, "")]


def figure_facts(run: RunLog, role: str | None = None, basis: str = stages.END_TO_END) -> list[Fact]:
    """Every figure of the vocabulary; of a model that does not answer, only its own. Unmeasured figures are None."""
    role = role or run.info.role
    found = []
    for key, figure in FIGURES.items():
        if figure.is_of_answer and role != run.info.role:
            continue
        value = READERS[key](run, role, basis)
        found.append(Fact(figure.head, (run.run_id,), figure.title, value, figure.unit or "share", figure.tip, key))
    return found


DEFAULT = "default"
"""The origin of a setting that nobody changed."""

_ALWAYS = ("attention", "cache", "step", "reads")
"""Settings that are shown at their defaults, too: their origin is not DEFAULT."""


def _settings(run: RunLog, role: str) -> Iterator[Fact]:
    make = partial(Fact, SETTINGS, (run.run_id,))
    settings = {setting.key: setting for setting in told_settings(run, role)}
    sample = run.info.sample
    if sample.is_clip:
        yield make("part", sample.clip_text, origin="the part of the sample that was used, on the sample's clock")
    weights = settings.get("quantization")
    if weights is not None:
        yield make("weights", settings["dtype"].text if weights.is_default else weights.text, tone=_tone(weights))
    model = run.info.models.get(role)
    if model is not None:
        yield make("size of weights", model.weight_bytes, "bytes", "bytes on the device")
    for key in dict.fromkeys((*_ALWAYS, *settings)):
        setting = settings.get(key)
        if setting is None or key == "quantization" or (key == "frames" and setting.is_default):
            continue
        origin = DEFAULT if setting.is_default and key not in _ALWAYS else ""
        yield make(setting.name, setting.text, origin=origin, tone=_tone(setting), key=key)
        if key == "reads" and ("frames" not in settings or settings["frames"].is_default):
            yield make("frames", len(run.frames.get(role, ())) or None)


def _tone(setting: ToldSetting) -> str:
    return "" if setting.is_default else "accent"


def _accuracy(run: RunLog, _: str) -> Iterator[Fact]:
    if not run.info.sample.is_scored:
        return
    make = partial(Fact, ACCURACY, (run.run_id,))
    verdict = verdict_of(run)
    yield make("answer", verdict, origin=_rules(RIGHT, CHOICE, EXACT), tone=VERDICT_TONES.get(verdict, ""))
    yield make("names choice", named_letter(run), origin=_rules(CHOICE))
    for key in (TOKEN_F1, ROUGE_L):
        value = score(run, key)
        yield make(FIGURES[key].title, None if value is None else percent_text(value), origin=_rules(key), key=key)


VERDICT_TONES = {"Right": "good", "Wrong": "bad"}


def verdict_of(run: RunLog) -> str:
    """`Right` or `Wrong`, of free text `F1 42 %`; "" until the run is over."""
    right, shared = score(run, RIGHT), score(run, TOKEN_F1)
    if right is not None:
        return "Right" if right else "Wrong"
    return "" if shared is None else f"F1 {percent_text(shared)}"


def expected_text(run: RunLog, longest: int = LONGEST) -> str:
    """The right choice with its letter, or the right wordings."""
    sample = run.info.sample
    choices, letter = (sample.expected.choices, sample.expected.letter) if sample.expected else ((), "")
    right = (choices[LETTERS.index(letter)],) if letter else sample.answers
    wordings = " or ".join(f"“{answer}”" for answer in right)
    text = one_line(f"{letter}, {wordings}" if letter else wordings, LONGEST)
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _rules(*keys: str) -> str:
    return "\n".join(SCORING_RULES[key].sentence for key in keys)


def _imported(run: RunLog, _: str) -> Iterator[Fact]:
    imported = run.info.imported
    if imported is None:
        return
    make = partial(Fact, IMPORTED, (run.run_id,))
    yield make("file", Path(imported.path).name or imported.path, origin=imported.path)
    yield make("family", imported.family.replace("_", " "), origin="the program that wrote the file, by its structure")
    yield make("row", str(imported.row), origin="counted from 0, as in the file")
    if imported.output_tokens is not None and not run.tokens:
        yield make("tokens", imported.output_tokens, origin="as the file counts them")
    for key, value in imported.figures.items():
        suffix = next((known for known in ("ms", "bytes", "tok_s") if key.endswith(f"_{known}")), "")
        name = "total in the file" if key == "wall_ms" else key.removesuffix(f"_{suffix}").replace("_", " ")
        number = f"{value:,.6g} {suffix.replace('tok_s', 'tok/s')}".strip()
        yield make(name, bytes_text(round(value)) if suffix == "bytes" else number, origin="as in the file", key=key)


def _loading(run: RunLog, role: str) -> Iterator[Fact]:
    found = kv_cache.loading_of(run, role)
    if found is None:
        return
    make, read = partial(Fact, LOADING, (run.run_id,)), found.facts
    yield make("events", read.events, origin="camera events brought onto the host")
    yield make("frames", read.frames, origin="pictures decoded, or drawn elsewhere and read")
    rate = "over opening, reading and decoding; without drawing and resizing"
    if found.events_per_s is not None:
        yield make("rate", found.events_per_s / 1e6, "M events/s", rate)
    elif found.frames_per_s is not None:
        yield make("rate", f"{found.frames_per_s:,.0f}", "frames/s", rate)
    yield make("decoder", read.decoder, origin="the recording's format, or the library that decoded the pictures")
    yield make("frame cache", read.frame_cache, origin="whether decoded frames of an earlier run were there")
    yield make("read", read.bytes_read, "bytes", "bytes of files that were requested")
    yield make("from disk", read.bytes_from_disk, "bytes", "the part of it that the system had not cached")
    if (share := found.from_disk_share) is not None:
        yield make("cached", percent_text(1 - share), origin="the share that the system had in memory already")


_QUANTIZED = "; counted unquantized"
_ORIGINS = {
    "system": ("system", f"the fixed words before the question{_QUANTIZED}"),
    "text": ("text", f"the question and the words around it{_QUANTIZED}"),
    "visual": ("visual", f"positions that carry pictures{_QUANTIZED}"),
    "generated": ("generated", f"the answer without its last token, which is never fed back{_QUANTIZED}"),
    "draft_accepted": ("of accepted drafts", f"the part of the answer that the draft proposed{_QUANTIZED}"),
    "draft_rolled_back": ("rolled back", f"written for rejected drafted tokens, then cut off again{_QUANTIZED}"),
}


def _cache(run: RunLog, role: str) -> Iterator[Fact]:
    make, measured = partial(Fact, KV_CACHE, (run.run_id,)), run.info.kv.get(role)
    if measured is not None:
        yield make("in use", measured.measured_bytes or None, "bytes", "the valid positions, as they are stored")
        yield make("stored", measured.stored_bytes or None, "bytes", "the memory that holds them, which may be more")
        yield make("reserved", measured.reserved_bytes or None, "bytes", "all memory of the cache")
    yield make("by formula", kv_cache.formula_bytes(run, role), "bytes", "2·layers·kv_heads·positions·head_dim·bytes")
    for key, count in kv_cache.bytes_by_origin(run, role).items():
        name, origin = _ORIGINS[key]
        yield make(name, count or None, "bytes", origin)
        frames = kv_cache.visual_bytes_per_frame(run, role) if key == "visual" else None
        if frames:
            least = "" if min(frames) == max(frames) else "≤ "
            text = f"{len(frames)} × {least}{bytes_text(max(frames))}"
            yield make("of single frames", text, origin=f"without what frames share, such as spatial means{_QUANTIZED}")


def _layout(run: RunLog, role: str) -> Iterator[Fact]:
    measured = run.info.kv.get(role)
    if measured is not None and measured.layout is not None and measured.layout.shape:
        text = layout_text(measured, measured.layout)
        yield partial(Fact, LAYOUT, (run.run_id,))("layout", text, origin="shape and strides of the first layer")


def layout_text(cache: KvFacts, layout: KvLayout) -> str:
    """`4 layers of 2 x [1, 4, 132, 32] float32, strides 17792, 4448, 32, 1 (with gaps), 4.00 KiB a position`."""
    shape, strides = ", ".join(map(str, layout.shape)), ", ".join(map(str, layout.strides))
    gaps = "contiguous" if layout.is_contiguous else "with gaps"
    positions = layout.shape[2] if len(layout.shape) == 4 else 0
    each = f", {bytes_text(cache.measured_bytes // positions)} a position" if positions else ""
    layers = count_text(len(cache.per_layer_bytes), "layer")
    return f"{layers} of 2 x [{shape}] {layout.dtype}, strides {strides} ({gaps}){each}"


ENERGY_ORIGIN = "of the devices that computed, idle power included; n/a: shorter than a step of the counter"
_SAMPLED = "ten samples a second of the devices that computed"


def _energy(run: RunLog, _: str) -> Iterator[Fact]:
    document = energy_document(run)
    if document is None or not computing_devices(run):
        return
    make = partial(Fact, ENERGY, (run.run_id,))
    of = " and ".join(name for name, entry in document["devices"].items() if entry["computes"])
    yield make("total", amount_text(document["energy_j"], "J"), origin=f"{ENERGY_ORIGIN}; {of}")
    for name, joules in {**document["stages"], "unattributed": document["unattributed_j"]}.items():
        yield make(name, amount_text(joules, "J"), origin=ENERGY_ORIGIN)
    yield make("per token", amount_text(document["energy_per_token_j"], "J"), origin="energy of decode / (n - 1)")
    yield make("mean power", amount_text(document["mean_power_w"], "W"), origin="energy / wall time")
    yield make("peak power", amount_text(document["peak_power_w"], "W"), origin=f"highest sample; {_SAMPLED}")
    states = [state for name, state in (throttled_devices(run) or {}).items() if name in computing_devices(run)]
    clocks = [mhz for state in states for mhz in (state["lowest_sm_mhz"], state["highest_sm_mhz"]) if mhz is not None]
    if clocks:
        ends = dict.fromkeys(f"{mhz:,}" for mhz in (min(clocks), max(clocks)))
        yield make("clock", f"{' … '.join(ends)} MHz", origin="lowest and highest of busy samples")
    hottest = max((state["hottest_c"] for state in states if state["hottest_c"] is not None), default=None)
    yield make("hottest", None if hottest is None else f"{hottest} °C", origin=_SAMPLED)
    slowed = [percent_text(state["throttled_share"]) for state in states if state["throttled_share"]]
    if slowed:
        reason = "samples in which the GPU reported a throttle reason, or its clock dropped"
        yield make("throttled", f"{'; '.join(slowed)} of samples", origin=reason, tone="warn")


_GPU_STATE = (
    ("clocks_mhz", "clock", "MHz"),
    ("memory_clocks_mhz", "memory clock", "MHz"),
    ("temperature_c", "temperature", "°C"),
    ("power_w", "power", "W"),
    ("power_limit_w", "power limit", "W"),
    ("other_processes", "other processes", ""),
)


def _gpu(run: RunLog, _: str) -> Iterator[Fact]:
    make, origin = partial(Fact, GPU, (run.run_id,)), "at the start and at the end of the run"
    both = (run.info.environment.get("gpu"), run.info.environment.get("gpu_end"))
    states = [state for state in both if isinstance(state, dict)]
    for key, name, unit in _GPU_STATE:
        values = dict.fromkeys(_plain_number(state[key]) for state in states if state.get(key) is not None)
        yield make(name, " → ".join(values), unit, origin)
    reasons = dict.fromkeys(str(reason) for state in states for reason in state.get("throttle_reasons") or [])
    yield make("throttled by", ", ".join(reasons), origin=origin, tone="warn")


def _plain_number(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, (int, float)) else str(value)


def _clocks(run: RunLog, _: str) -> Iterator[Fact]:
    for device, found in run.info.clocks.items():
        text = f"{found.drift_us:+.1f} µs (± {found.uncertainty_us:.1f}) behind the host's clock at the end"
        fixed = ", corrected" if found.is_corrected else ""
        origin = "drift of the device's clock during the run"
        yield Fact(CLOCKS, (run.run_id,), device, text + fixed, origin=origin)


def acceptance_facts(run: RunLog, repeats: Sequence[RunLog]) -> Iterator[Fact]:
    """Draft acceptance of a run; the ceiling is over its `repeats`, itself included."""
    counts = acceptance(run)
    if counts is None:
        return
    make = partial(Fact, DRAFTING, (run.run_id,))
    accepted = f"{counts.accepted:,} / {counts.drafted:,}"
    if is_tree([run]):
        yield make("accepted / drafted nodes", accepted, origin="most nodes of a tree cannot be accepted")
    else:
        yield make("accepted / drafted", accepted, origin="draft acceptance rate: the bonus token is not counted")
        yield make("acceptance rate", counts.draft_acceptance_rate, "share", FIGURES["draft_acceptance_rate"].tip)
    if counts.hidden_drafted:
        yield make(
            "hidden accepted / drafted",
            f"{counts.hidden_accepted:,} / {counts.hidden_drafted:,}",
            origin="of what was drafted during the target's prefill",
        )
        yield make("hidden acceptance rate", counts.hidden_accepted / counts.hidden_drafted, "share")
    length = counts.mean_acceptance_length
    over = f"1 + accepted / rounds, over {count_text(counts.rounds, 'round')}: the bonus token is counted"
    yield make("mean acceptance length", None if length is None else f"{length:.2f}", origin=over)
    ceiling = ceiling_of(repeats)
    if ceiling is None:
        origin = f"Fewer than {FEWEST_REJECTIONS} different rejections: too few to estimate."
    else:
        low, high = ceiling.interval
        ends = f"{1 + low:.2f} to {'no limit' if high is None else f'{1 + high:.2f}'}"
        origin = (
            "The bound on the mean acceptance length for any number of drafted tokens, if tokens are accepted "
            f"independently; the bonus token is counted; 95 % interval {ends}, from {ceiling.rejections} rejections."
        )
    value = None if ceiling is None else f"{1 + ceiling.value:.2f}"
    ids = tuple(one.run_id for one in repeats)
    yield Fact(DRAFTING, ids, "ceiling 1 / (1 − α)", value, origin=origin)


# Facts over several runs.


def time_facts(lines: Sequence[Sequence[RunLog]]) -> list[Fact]:
    """The mean time of the runs of each model; `lines` are runs, or pairs that ran side by side."""
    runs = [run for line in lines for run in line]
    found = []
    for role in dict.fromkeys(run.info.role for run in runs):
        observed = [run for run in runs if run.info.role == role and run_time_ms(run) is not None]
        mean = mean_of(observe(observed, run_time_ms))
        if mean is not None:
            ids, origin = tuple(run.run_id for run in observed), FIGURES["total_ms"].tip
            found.append(Fact("Time", ids, role, mean, "ms", origin, "total_ms"))
    return found


def run_time_ms(run: RunLog) -> float | None:
    """The time of a whole run: its own wall, of an imported one the total that its file gives."""
    return stages.wall_ms(run) if run.info.imported is None else stages.total_ms(run)


def speedup_fact(payoff: Payoff) -> Fact | None:
    """The speed-up of runs that draft over their baseline, without a value unless it may be called faster or slower;
    None where nothing was measured."""
    whole = payoff.whole
    if whole is None:
        return None
    ids, origin = tuple(run.run_id for run in payoff.runs), payoff_sentence(payoff)
    if not payoff.is_clear:
        return Fact(DRAFTING, ids, "speed-up", None, "×", origin, "speedup")
    tone = "good" if payoff.is_faster else "bad"
    return Fact(DRAFTING, ids, "speed-up", whole.ratio, "×", origin, "speedup", tone, whole.interval)


def score_facts(runs: Sequence[RunLog]) -> list[Fact]:
    """By role the share of right answers or, of free text, the mean token F1, among the runs that are scored."""
    found = []
    for key in (RIGHT, TOKEN_F1):
        by_role: dict[str, list[tuple[int, float]]] = {}
        for run in runs:
            if (value := score(run, key)) is not None:
                by_role.setdefault(run.info.role, []).append((run.run_id, value))
        for role, values in by_role.items():
            ids, scores = zip(*values, strict=True)
            found.append(Fact(ACCURACY, ids, role, sum(scores) / len(scores), "share", FIGURES[key].tip, key))
    return found


def _warnings(run: RunLog, _: str) -> Iterator[Fact]:
    for sentence in (*run.info.warnings, throttle_sentence(run)):
        yield Fact(WARNINGS, (run.run_id,), "warning", sentence, tone="warn")


_SECTIONS: Mapping[str, Callable[[RunLog, str], Iterable[Fact]]] = {
    SETTINGS: _settings,
    ACCURACY: _accuracy,
    IMPORTED: _imported,
    FIGURE: figure_facts,
    LOADING: _loading,
    KV_CACHE: _cache,
    LAYOUT: _layout,
    ENERGY: _energy,
    GPU: _gpu,
    DRAFTING: lambda run, _: acceptance_facts(run, (run,)),
    CLOCKS: _clocks,
    WARNINGS: _warnings,
}
"""Sections in order of presentation. FIGURE yields facts under the sections of the vocabulary."""
