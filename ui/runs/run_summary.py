"""What the inspector says of whole runs: what each model took, its cache, energy, the GPU, and the runs' warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text
from evprof.view.columns import ShownModel
from evprof.view.labels import stages_in
from ui.run_facts.energy import ENERGY_LINES, ENERGY_TIP, SLOWED_DOWN, energy_lines
from ui.run_facts.expected import expected_lines, expected_note, rule_of
from ui.run_facts.figures import NOTHING, column_heads
from ui.run_facts.provenance import provenance_lines
from ui.run_facts.run_text import mode_name
from ui.runs.loading_details import LOADING_LINES, SUMMARY, loading_of_column
from ui.runs.run_details import Detail, DetailSection
from ui.samples.clip_choice import clip_of

if TYPE_CHECKING:
    from evprof.metrics.configurations.settings_text import ToldSetting

_PART = "the part of the sample that was taken, on the sample's clock"

_ALWAYS = ("attention", "cache", "step", "reads")
"""Settings that are told even at their defaults, after the weights."""

_KEPT = "; counted unquantized"
_CACHE = {
    "in use": "the positions that count, in the form they are kept in",
    "stored": "the memory these lie in, of which less may be in use",
    "set aside": "all memory that the cache holds",
    "system": f"the words before the question that are always there{_KEPT}",
    "text": f"the question and the words around it{_KEPT}",
    "visual": f"positions that carry pictures{_KEPT}",
    "of single frames": f"what frames share, such as means over space, is not among them{_KEPT}",
    "generated": f"the answer; its last token is never fed back{_KEPT}",
    "of accepted drafts": f"the part of the answer that the draft proposed{_KEPT}",
    "rolled back": f"written for drafted tokens that were rejected, and cut off again{_KEPT}",
}
"""Lines about a cache, and what each means."""

_GPU = (
    ("clocks_mhz", "clock", "MHz"),
    ("memory_clocks_mhz", "memory clock", "MHz"),
    ("temperature_c", "temperature", "°C"),
    ("power_w", "power", "W"),
    ("power_limit_w", "power limit", "W"),
    ("other_processes", "other processes", ""),
)

_HINT = "Click a stage or a token, or drag over the time axis, for more."


def summary_sections(a: ShownModel | None, b: ShownModel | None) -> list[DetailSection]:
    """What is set and taken in the columns, side by side where there are two; nothing without a run."""
    columns = [column for column in (a, b) if column is not None]
    if not columns:
        return []
    heads = column_heads(a, b) if len(columns) == 2 else ()
    runs = list({column.run.run_id: column.run for column in columns}.values())
    title = " and ".join(str(run.run_id) for run in runs)
    title = f"Run {title} · {runs[0].info.name or mode_name(runs[0].info.mode)}" if len(runs) == 1 else f"Runs {title}"
    sections = [
        DetailSection(title, _models(columns), heads=heads),
        DetailSection("Note", note="\n".join(_notes(runs))),
        DetailSection("Accuracy", _scores(runs), note=expected_note(runs)),
        *(
            DetailSection(f"Imported · run {run.run_id}" if len(runs) > 1 else "Imported", *_imported(run))
            for run in runs
        ),
        DetailSection("Loading", _loadings(columns)),
        DetailSection("KV cache", _caches(columns)),
        DetailSection("Energy", _energies(runs)),
        DetailSection("GPU", _gpus(runs)),
        DetailSection("Warnings", note="\n".join(_warnings(runs))),
    ]
    return [*(section for section in sections if section.details or section.note), DetailSection("", note=_HINT)]


def _models(columns: Sequence[ShownModel]) -> list[Detail]:
    """Weights and what computed, then every setting that is not at its default in one of the columns."""
    from evprof.metrics.configurations.settings_text import told_settings

    settings = [{setting.key: setting for setting in told_settings(*column)} for column in columns]
    parts = [clip_of(column.run.info.sample, 0) for column in columns]
    taken = [_beside("part", ["" if part.is_all else part.words for part in parts], tip=_PART)]
    details = [
        *(taken if not all(part.is_all for part in parts) else []),
        _beside(
            "weights", [_weights(listed) for listed in settings], [_role(listed, "quantization") for listed in settings]
        ),
        _beside("their size", [_weight_bytes(column) for column in columns], tip="bytes on the device"),
    ]
    keys = dict.fromkeys(_ALWAYS)
    keys |= {key: None for listed in settings for key, setting in listed.items() if not setting.is_default}
    for key in keys:
        if key != "quantization":
            name = next((listed[key].name for listed in settings if key in listed), "")
            if not name:
                continue
            texts = [listed[key].text if key in listed else "" for listed in settings]
            details.append(_beside(name, texts, [_role(listed, key) for listed in settings]))
            if key == "reads" and "frames" not in keys and any(run.frames for run, _ in columns):
                details.append(_beside("frames", [str(len(run.frames.get(role, ())) or "") for run, role in columns]))
    return details


def _weights(settings: dict[str, ToldSetting]) -> str:
    """`int4`, or the arithmetic the weights are kept in; empty while the model is not known."""
    kept = settings.get("quantization")
    if kept is None:
        return ""
    return settings["dtype"].text if kept.is_default else kept.text


def _weight_bytes(column: ShownModel) -> str:
    model = column.run.info.models.get(column.role)
    return "" if model is None else bytes_text(model.weight_bytes)


def _role(settings: dict[str, ToldSetting], key: str) -> str:
    return "accent" if key in settings and not settings[key].is_default else ""


def _beside(name: str, texts: Sequence[str], roles: Sequence[str] = (), tip: str = "", unit: str = "") -> Detail:
    """One line of one or two cells; a dash stands where only the other column has something to say."""
    said = [text or NOTHING for text in texts]
    colours = tuple("dim" if not text else role for text, role in zip(texts, roles or [""] * len(texts), strict=True))
    return Detail(name, said[0], tip=tip, unit=unit, beside=said[1] if len(said) > 1 else None, roles=colours)


def _scores(runs: Sequence[RunLog]) -> list[Detail]:
    """Whether each run answered what was expected, and how near it came; lines that no run fills are left out."""
    found = [expected_lines(run) for run in runs]
    names = dict.fromkeys(name for lines in found for name in lines)
    tones = {"Right": "good", "Wrong": "bad"}
    return [
        _beside(name, texts, [tones.get(text, "") for text in texts], tip=rule_of(name))
        for name in names
        if any(texts := [lines.get(name, "") for lines in found])
    ]


def _loadings(columns: Sequence[ShownModel]) -> list[Detail]:
    """What stage load read and how fast; lines that no column fills are left out."""
    loadings = [loading_of_column(*column) for column in columns]
    found = [(name, LOADING_LINES[name], [loading[name] for loading in loadings]) for name in SUMMARY]
    return [_beside(name, texts, tip=tip) for name, tip, texts in found if any(texts)]


def _caches(columns: Sequence[ShownModel]) -> list[Detail]:
    """Bytes in use, stored and set aside, then what filled them; lines that no column fills are left out."""
    caches = [_cache_of(column) for column in columns]
    found = [(name, tip, [cache[name] for cache in caches]) for name, tip in _CACHE.items()]
    return [_beside(name, texts, tip=tip) for name, tip, texts in found if any(texts)]


def _cache_of(column: ShownModel) -> dict[str, str]:
    from evprof.metrics.figures import kv_cache

    facts = column.run.info.kv.get(column.role)
    filled = kv_cache.bytes_by_origin(*column)
    return {
        "in use": _size(facts.measured_bytes if facts else None),
        "stored": _size(facts.stored_bytes if facts else None),
        "set aside": _size(facts.reserved_bytes if facts else None),
        "system": _size(filled["system"]),
        "text": _size(filled["text"]),
        "visual": _size(filled["visual"]),
        "of single frames": _per_frame(column),
        "generated": _size(filled["generated"]),
        "of accepted drafts": _size(filled["draft_accepted"]),
        "rolled back": _size(filled["draft_rolled_back"]),
    }


def _size(count: int | None) -> str:
    return bytes_text(count) if count else ""


def _per_frame(column: ShownModel) -> str:
    """`8 × 6.25 MiB`, of the most where frames differ."""
    from evprof.metrics.figures import kv_cache

    frames = kv_cache.visual_bytes_per_frame(*column)
    if not frames:
        return ""
    return f"{len(frames)} × {'' if min(frames) == max(frames) else '≤ '}{bytes_text(max(frames))}"


def _gpus(runs: Sequence[RunLog]) -> list[Detail]:
    """The GPU of each run, before and after it; nothing where none was read."""
    states = [_states(run.info.environment) for run in runs]
    tip = "when the run began and when it ended"
    details = []
    for key, name, unit in _GPU:
        texts = [
            " → ".join(dict.fromkeys(_figure(state[key]) for state in pair if state.get(key) is not None))
            for pair in states
        ]
        if any(texts):
            details.append(_beside(name, texts, tip=tip, unit=unit))
    reasons = [
        dict.fromkeys(reason for state in pair for reason in state.get("throttle_reasons") or []) for pair in states
    ]
    if any(reasons):
        details.append(_beside("slowed down by", [", ".join(found) for found in reasons], ["warn"] * len(runs), tip))
    return details


def _energies(runs: Sequence[RunLog]) -> list[Detail]:
    """Energy of each run, in all and by stage; nothing where no device was sampled."""
    found = [energy_lines(run) for run in runs]
    names = dict.fromkeys(name for lines in found for name in lines)
    details = []
    for name in sorted(names, key=lambda name: name in ENERGY_LINES):
        texts = [lines.get(name, "") for lines in found]
        roles = ["warn" if name == SLOWED_DOWN else ""] * len(texts)
        told = _beside(name, texts, roles, tip=ENERGY_LINES.get(name, ENERGY_TIP))
        details.append(replace(told, swatch=name if stages_in(name) else ""))
    return details


def _states(environment: dict[str, Any]) -> list[dict[str, Any]]:
    return [state for state in (environment.get("gpu"), environment.get("gpu_end")) if isinstance(state, dict)]


def _figure(value: Any) -> str:
    return f"{value:,g}" if isinstance(value, (int, float)) else str(value)


def _imported(run: RunLog) -> tuple[list[Detail], str]:
    """The file and row an imported run comes from, and what has to be known of it."""
    notes = run.info.imported.notes if run.info.imported is not None else []
    return [Detail(name, text, tip=tip) for name, text, tip in provenance_lines(run)], "\n".join(notes)


def _notes(runs: Sequence[RunLog]) -> list[str]:
    """What somebody wrote about the runs, and of two that were compared what they were called."""
    return [
        run.info.note
        if len(runs) == 1
        else f"Run {run.run_id}{f' “{run.info.name}”' * bool(run.info.name)}: {run.info.note}"
        for run in runs
        if run.info.note
    ]


def _warnings(runs: Sequence[RunLog]) -> list[str]:
    from evprof.metrics.figures.throttling import throttle_sentence

    said = [
        (run.run_id, sentence) for run in runs for sentence in (*run.info.warnings, throttle_sentence(run)) if sentence
    ]
    return [sentence if len(runs) == 1 else f"Run {run_id}: {sentence}" for run_id, sentence in said]
