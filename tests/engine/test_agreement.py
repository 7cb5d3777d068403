"""Whether a setting counts: the window, the command line, a suite and the engine say the same in every mode.

Each party is asked by one function below. A setting counts where another value of it is another measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from engines.measuring.timing import NullClock
from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import EVENTS, FAMILIES, VIDEO
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, MODES
from evprof.core.vocabulary.settings import DEFAULTS, with_value
from evprof.run.suites.cell import SuiteConfiguration, meaningful
from ui.settings.request_form import RequestForm

DRAFT_FAMILY, TARGET_FAMILIES = "eventgpt", ("video_llava", "llava", "llava_next_video")
DRAFT, TARGET = ModelChoice("a-draft"), ModelChoice("a-target")

OTHER: dict[str, Any] = {
    "frames": 2,
    "event_frames": 2,
    "prompt_style": "training",
    "event_markers": False,
    "canvas": "640x480",
    "pooling": "none",
    "image_layout": "grid",
    "draft_input": VIDEO,
    "target_input": EVENTS,
    "projector": "fused",
}
"""Every setting that the engine judges for itself, with a value that is not its default."""

NEEDS: dict[str, tuple[dict[str, Any], ...]] = {
    "event_markers": ({}, {"prompt_style": "training"}),
    "pooling": ({"event_frames": 1},),
    "projector": ({}, {"drafter": "lookup"}),
}
"""What some settings ask of others: each is tried with it and without. Pooling `none` always needs a single frame."""

READINGS: tuple[dict[str, Any], ...] = ({}, {"target_input": EVENTS}, {"draft_input": VIDEO})
"""Both halves of the sample are read, nothing reads the video, nothing reads the events."""

OPTIONS = {
    "--prompt-style": "prompt_style",
    "--no-event-markers": "event_markers",
    "--canvas": "canvas",
    "--pooling": "pooling",
    "--image-layout": "image_layout",
    "--projector": "projector",
}
"""What the engine warns about where it changes nothing, by option."""


@dataclass(frozen=True)
class Case:
    """A mode with its models' families and the other settings."""

    mode: str
    target_family: str
    settings: GenerationSettings

    def request(self, key: str | None = None) -> RunRequest:
        """A run, with the default of a setting left out or its other value put in."""
        settings = self.settings if key is None else changed(self.settings, {key: OTHER[key]})
        return RunRequest(self.mode, Sample("events.npy", "video.mp4"), DRAFT, TARGET, settings)


ROLES = {"frames": "target", "target_input": "target", "event_frames": "draft", "draft_input": "draft"}
"""Whose input some settings describe."""

Uses = Callable[[str, str, str], set[str]]
"""Family and half of the sample -> those of OPTIONS that change what the model computes, as the engine says."""


def changed(settings: GenerationSettings, values: dict[str, Any]) -> GenerationSettings:
    """The settings with these values, wherever they belong."""
    for key, value in values.items():
        settings = with_value(settings, key, value)
    return settings


def cases(key: str) -> Iterator[Case]:
    """Every case that can be asked for at all and in which the setting still stands at its default."""
    for mode, family, needs, reading in product(MODES, TARGET_FAMILIES, NEEDS.get(key, ({},)), READINGS):
        if key in needs or key in reading:
            continue
        base = {"adapter": "a-map"} if mode == KV_ADAPTED else {}
        case = Case(mode, family, changed(GenerationSettings(), {**base, **needs, **reading}))
        if not refused(case.request()):
            yield case


def refused(request: RunRequest) -> bool:
    """Whether a request means nothing."""
    try:
        request.validate()
    except UserError:
        return True
    return False


# The parties: True where the setting counts, False where it changes nothing or is refused, None without an opinion.


def in_window(key: str, case: Case) -> bool:
    """The settings popover."""
    form = form_of(case.mode, case.settings, case.target_family)
    if key not in form.controls:
        return True  # it has a place of its own in the window
    return not (form.obstacle(key, form.here) or form.refusal(key, OTHER[key], form.here))


def form_of(mode: str, settings: GenerationSettings, target_family: str = TARGET_FAMILIES[0]) -> RequestForm:
    """The window's form with a pair of models of these families and a whole sample."""
    form = RequestForm()
    form.draft = ModelChoice(f"random:160m-{FAMILIES[DRAFT_FAMILY].word}")
    form.target = ModelChoice(f"random:160m-{FAMILIES[target_family].word}")
    form.sample, form.settings = Sample("events.npy", "video.mp4"), settings
    form.choose_mode(mode)
    return form


def on_command_line(key: str, case: Case) -> bool | None:
    """`evprof run` only refuses."""
    return False if refused(case.request(key)) else None


def in_suite(key: str, case: Case) -> bool:
    """Two cells, or one measurement twice."""
    if refused(case.request(key)):
        return False

    families = {DRAFT.name: DRAFT_FAMILY, TARGET.name: case.target_family}
    plain, other = (
        meaningful(SuiteConfiguration(case.mode, DRAFT, TARGET, asked.settings), families.get)
        for asked in (case.request(), case.request(key))
    )
    return plain != other


def in_engine(key: str, case: Case, uses: Uses) -> bool | None:
    """A run: some model that reads its input uses the setting."""
    request = case.request(key)
    if refused(request):
        return None
    if key in ROLES:
        return ROLES[key] in request.reading_roles
    if key not in OPTIONS.values():
        return None
    families, style = {"draft": DRAFT_FAMILY, "target": case.target_family}, case.settings.input.prompt_style
    return any(key in uses(families[role], request.input_of(role), style) for role in request.reading_roles)


@pytest.fixture(scope="module")
def uses(make_model: Callable[..., Any], sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Uses]:
    """Asks models of every family, with one of OPTIONS at a time at its other value."""
    known: dict[tuple[str, str, str], set[str]] = {}

    def ask(family: str, kind: str, style: str) -> set[str]:
        if (family, kind, style) not in known:
            model, clock = make_model(family), NullClock()
            known[family, kind, style] = set()
            for option, key in OPTIONS.items():
                asked = {"prompt_style": style, key: OTHER[key]}
                settings = changed(GenerationSettings(frames=1, event_frames=1), asked)
                host = model.load(sample, settings, clock, kind=kind)
                if option not in " ".join(model.preprocess(host, "What is there?", settings, clock).warnings):
                    known[family, kind, style].add(key)
        return known[family, kind, style]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield ask


def disagreements(key: str, uses: Uses) -> list[str]:
    """The cases in which the parties say different things, and what each of them says."""
    found = []
    for case in cases(key):
        said = {
            "window": in_window(key, case),
            "command line": on_command_line(key, case),
            "suite": in_suite(key, case),
            "engine": in_engine(key, case, uses),
        }
        opinions = {party: opinion for party, opinion in said.items() if opinion is not None}
        if len(set(opinions.values())) > 1:
            differs = {name: value for name, value in case.settings.flat().items() if value != DEFAULTS[name]}
            found.append(f"{case.mode}, {case.target_family} {differs}: {opinions}")
    return found


@pytest.mark.parametrize("key", OTHER)
def test_all_say_the_same_about_what_counts(key: str, uses: Uses) -> None:
    assert disagreements(key, uses) == []


@pytest.mark.parametrize("mode", MODES)
def test_all_ask_for_the_same_halves_of_a_sample(mode: str) -> None:
    settings = changed(GenerationSettings(), {"adapter": "a-map"} if mode == KV_ADAPTED else {})
    form = RequestForm()
    form.settings = settings
    for sample in (Sample("events.npy"), Sample(None, "video.mp4"), Sample("events.npy", "video.mp4")):
        form.sample = sample
        window_lacks = bool(form.mode_problem(mode))
        suite_lacks = SuiteConfiguration(mode, DRAFT, TARGET, settings).lacks(sample) is not None
        run_lacks = refused(RunRequest(mode, sample, DRAFT, TARGET, settings))
        assert (window_lacks, suite_lacks) == (run_lacks, run_lacks), sample
