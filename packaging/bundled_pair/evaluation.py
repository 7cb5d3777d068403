"""What the bundled pair says of held-out scenes, asked in held-out words: how open, how new, how right, how alike.

Questions of one wording go to all scenes, so that the answer to another scene's input is the one that scene got.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import numpy as np
import torch

from bundled_pair.attributes import VALUES, VIDEO_VISIBLE, Attributes, chance
from bundled_pair.dataset import held_out_scenes, training_attributes
from bundled_pair.export import EVENTGPT_NAME, VIDEO_LLAVA_NAME
from bundled_pair.grammar import SUBJECTS, Question, draw_answer, draw_question, held_out_options, parse
from bundled_pair.held_out import Said, Witness, load, write_scenes
from bundled_pair.openness import Openness, openness_of
from bundled_pair.productions import ANSWERS, DESCRIBE, KINDS, RULES
from bundled_pair.scenes import Scene
from bundled_pair.training import COURSES
from engines.decoder.decoding import CachedModel, Limits
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import NullClock
from engines.speculation.draft_length import Fixed
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Verifier
from engines.tokens.answer import Round, SilentAnswer
from engines.tokens.vocabulary_alignment import align
from evprof.core.records import DRAFT, TARGET
from evprof.core.units import percent_text
from evprof.loaders.bundled_evaluation import EVALUATION

GAMMA = 5
_OTHERS = 5
_RESAMPLED = 2000

Item = tuple[str, float, float, float]
"""Kind, whether it was right, whether another scene's input would have been, and chance."""


@dataclass(frozen=True)
class Accuracy:
    """Of one kind of question: shares of right answers, with another scene's input, and of the best constant answer."""

    items: int
    right: float
    other_input: float
    chance: float


@dataclass(frozen=True)
class Acceptance:
    """Greedy speculative decoding of one held-out question a scene: draft EventGPT, target Video-LLaVA."""

    gamma: int
    scenes: int
    unique_tokens: int
    rounds: int
    drafted: int
    accepted: int
    draft_acceptance_rate: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class Evaluation:
    """Everything measured; productions are those of the grammar, and the share of them that training never drew."""

    scenes: int
    seed: int
    held_out_productions: float
    accuracy: dict[str, dict[str, Accuracy]]
    openness: dict[str, Openness]
    acceptance: Acceptance


def evaluate(models: Path, scenes: Sequence[Scene], seed: int, workers: int = 1) -> Evaluation:
    """Write ``scenes`` as files, have both models below ``models`` look at them, and question them."""
    with TemporaryDirectory(prefix="evprof-tiny-") as folder:
        samples = write_scenes(Path(folder), scenes, workers)
        draft = Witness(load(models / EVENTGPT_NAME, DRAFT), DRAFT, samples)
        target = Witness(load(models / VIDEO_LLAVA_NAME, TARGET), TARGET, samples)
    facts = [scene.attributes for scene in scenes]
    accuracy, openness = {}, {}
    for name, witness in ((EVENTGPT_NAME, draft), (VIDEO_LLAVA_NAME, target)):
        answered = ask(witness, facts, seed)
        accuracy[name] = by_kind(answered, facts, COURSES[name].visible)
        openness[name] = openness_of(witness, answered, name, seed)
    return Evaluation(
        len(scenes),
        seed,
        held_out_share(seed),
        accuracy,
        openness,
        acceptance(draft, target, facts, seed),
    )


def questions(scene: Attributes, seed: int) -> list[Question]:
    """Two wordings of every subject, each with a production that training never drew."""
    rng = np.random.default_rng((seed, 4))
    return [draw_question(rng, scene, subject, held_out=True) for subject in SUBJECTS for _ in range(2)]


def ask(witness: Witness, facts: Sequence[Attributes], seed: int) -> list[tuple[Question, list[Said]]]:
    """Every question, and the greedy answer for every scene."""
    return [(question, witness.answers(question.text)) for question in questions(facts[0], seed)]


def by_kind(
    answered: Sequence[tuple[Question, Sequence[Said]]], facts: Sequence[Attributes], visible: Sequence[str]
) -> dict[str, Accuracy]:
    """Accuracy of every kind of question, on facts that the model can see."""
    found: dict[str, list[Item]] = {kind: [] for kind in KINDS}
    for question, replies in answered:
        if not question.about or question.about in visible:
            found[question.kind] += _items(question, replies, facts)
    return {
        kind: Accuracy(len(items), *(float(np.mean([item[place] for item in items])) for place in (1, 2, 3)))
        for kind, items in found.items()
    }


def _items(question: Question, replies: Sequence[Said], facts: Sequence[Attributes]) -> Iterator[Item]:
    """One item for each answer; of a description, one for each fact it states.

    Another scene's input: the answers of the next few scenes in turn, held against this one's facts.
    """
    count = len(facts)
    constant = max(Counter(question.truth(scene) for scene in facts).values()) / count if question.about else 0.0
    for index, scene in enumerate(facts):
        others = [replies[(index + step) % count] for step in range(1, _OTHERS + 1)]
        if question.kind != DESCRIBE:
            truth = question.truth(scene)
            wrong = [question.said(other.text) == truth for other in others]
            yield question.kind, question.said(replies[index].text) == truth, float(np.mean(wrong)), constant
            continue
        for fact, value in parse(replies[index].text).items():
            if fact in VALUES:
                told = [parse(other.text).get(fact) for other in others]
                known = [float(each == getattr(scene, fact)) for each in told if each is not None]
                yield (
                    DESCRIBE,
                    value == getattr(scene, fact),
                    float(np.mean(known or [chance(fact)])),
                    chance(fact),
                )


def held_out_share(seed: int, draws: int = 3000) -> float:
    """The share of the answers' productions that training never draws, in all templates that so many draws meet."""
    rng = np.random.default_rng((seed, 8))
    places: set[tuple[str, str]] = set()
    for number in range(draws):
        scene = training_attributes(seed, number % 500)
        question = draw_question(rng, scene, SUBJECTS[number % len(SUBJECTS)], held_out=False)
        for production in draw_answer(rng, scene, question, VIDEO_VISIBLE, held_out=True).productions:
            template, symbol, _ = production.split(" | ")
            places.add((template, symbol))
    options = {(template, symbol): tuple(RULES[symbol]) for template, symbol in places if symbol in RULES}
    options |= {
        (name, name): tuple(text for text, _ in ANSWERS[subject])
        for subject in SUBJECTS
        for name in ["/".join(subject)]
    }
    held = sum(len(held_out_options(*place, each)) for place, each in options.items())
    return held / sum(len(each) for each in options.values())


class _Tally(SilentAnswer):
    """Counts rounds; keeps nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = self.drafted = self.accepted = 0

    def note_round(self, turn: Round) -> None:
        self.rounds += 1
        self.drafted += len(turn.drafted_ids)
        self.accepted += turn.accepted


@torch.no_grad()
def acceptance(draft: Witness, target: Witness, facts: Sequence[Attributes], seed: int) -> Acceptance:
    """Speculative decoding of one question on every scene both have seen; the interval draws whole scenes anew."""
    tallies: list[_Tally] = []
    alignment = align(draft.model.vocabulary, target.model.vocabulary)
    asked = questions(facts[0], seed)
    for scene in range(len(target.visual)):
        question = asked[scene % len(asked)].text
        tally = _Tally()
        fresh = {role: CachedModel.over(witness.language, role) for role, witness in ((DRAFT, draft), (TARGET, target))}
        fresh[DRAFT].prefill(draft.prompt(question, scene), Event())
        logits = fresh[TARGET].prefill(target.prompt(question, scene), Event())
        tally.add(int(logits.argmax()))
        limits = Limits(128, target.model.vocabulary.eos_ids)
        Rounds(
            fresh[TARGET],
            ModelDrafter(EVENTGPT_NAME, fresh[DRAFT], alignment, limits.eos_ids),
            tally,
            limits,
            length=Fixed(GAMMA),
            verifier=Verifier(),
            clock=NullClock(),
            stop=Event(),
        ).run()
        tallies.append(tally)
    counts = np.array([(tally.accepted, tally.drafted) for tally in tallies])
    chosen = np.random.default_rng((seed, 7)).integers(len(counts), size=(_RESAMPLED, len(counts)))
    accepted, drafted = counts[chosen].sum(axis=1).T
    low, high = np.quantile(accepted / drafted, (0.025, 0.975))
    accepted, drafted = counts.sum(axis=0)
    return Acceptance(
        GAMMA,
        len(tallies),
        sum(len(tally.ids) for tally in tallies),
        sum(tally.rounds for tally in tallies),
        int(drafted),
        int(accepted),
        float(accepted / drafted),
        (float(low), float(high)),
    )


def evaluate_pair(models: Path, count: int, seed: int, *, as_json: bool) -> int:
    """Evaluate on ``count`` held-out scenes, keep the findings beside the target, and print them."""
    result = evaluate(models, held_out_scenes(count, seed), seed)
    document = {**asdict(result), "command": f"python packaging/make_pair.py --seed {seed} evaluate --scenes {count}"}
    (models / VIDEO_LLAVA_NAME / EVALUATION).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=1) if as_json else table(result))
    return 0


def table(result: Evaluation) -> str:
    """The evaluation as Markdown, as the model cards carry it."""
    lines = [f"{result.scenes} held-out scenes, seed {result.seed}, questions in held-out words, float32, CPU, greedy."]
    for name, kinds in result.accuracy.items():
        lines += ["", f"`{name}`", "", "| question | asked | right | another scene's input | chance |"]
        lines.append("|---|---|---|---|---|")
        for kind, found in kinds.items():
            lines.append(
                f"| {kind} | {found.items} | {percent_text(found.right, 1)} | {percent_text(found.other_input, 1)} | "
                f"{percent_text(found.chance, 1)} |"
            )
        left = result.openness[name]
        lines += [
            "",
            f"Entropy: {left.entropy_bits:.2f} bits a token on answers drawn at temperature 1, "
            f"{left.entropy_bits_greedy:.2f} on greedy ones; answers of {left.shortest} to {left.longest} tokens. Of "
            f"the drawn answers {percent_text(left.in_training, 1)} stand word for word among the "
            f"{left.training_answers:,} of the training, of the greedy ones "
            f"{percent_text(left.in_training_greedy, 1)}. A blind {left.ngram}-gram of the last {left.ngram_answers:,} "
            f"of these has perplexity {left.ngram_perplexity:.2f} on the drawn ones and foretells "
            f"{percent_text(left.ngram_right_greedy, 1)} of the greedy tokens.",
        ]
    speed = result.acceptance
    lines += [
        "",
        f"Speculative decoding, γ = {speed.gamma}, one question a scene: {speed.accepted:,} of {speed.drafted:,} "
        f"drafted tokens accepted ({percent_text(speed.draft_acceptance_rate, 1)}, 95 %: "
        f"{percent_text(speed.ci95[0], 1)} to {percent_text(speed.ci95[1], 1)}, drawn by scene), "
        f"{speed.unique_tokens:,} tokens of {speed.scenes} scenes. {percent_text(result.held_out_productions, 1)} of "
        "the productions of answers are held out.",
    ]
    return "\n".join(lines)
