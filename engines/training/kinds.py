"""Which trainee each kind of adapter has, made from the models it hangs on: the one place that knows all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engines.stages.model import VisionLanguageModel
from engines.tokens.vocabulary_alignment import align
from engines.training.trainee import Trainee
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.drafters import EAGLE, HIDDEN, KV, LORA, NGRAM


@dataclass(frozen=True)
class TraineeSide:
    """What a trainee is made of. `sizes` are those asked for by name; the kind has its own for the rest."""

    target: VisionLanguageModel
    draft: VisionLanguageModel | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0

    @property
    def paired(self) -> VisionLanguageModel:
        """The draft. Raises UserError where none took part."""
        if self.draft is None:
            raise UserError(
                "This kind is taught from the draft's hidden states, and the examples were collected without a draft; "
                "collect them with one."
            )
        return self.draft

    def size(self, name: str, default: int) -> int:
        """A size as asked for, else the kind's own."""
        return self.sizes.get(name, default)


def make_trainee(kind: str, side: TraineeSide) -> Trainee:
    """An untrained adapter. Raises UserError for sizes the kind does not have, and for models that do not suit it."""
    if kind not in _MAKERS:
        raise UserError(f"--kind must be one of {', '.join(_MAKERS)}, not {kind}.", exit_code=USAGE)
    known = SIZES[kind]
    for name, value in side.sizes.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise UserError(f"--size: {kind} has no size '{name}'; it has {names}.", exit_code=USAGE)
        least, most = known[name]
        if not least <= value <= most:
            raise UserError(f"--size {name} of {kind} lies from {least} to {most}, not {value}.", exit_code=USAGE)
    return _MAKERS[kind](side)


def release(trainee: Trainee) -> None:
    """Gives the models a trainee hangs on back as they were."""
    if trainee.kind == LORA:
        from engines.training.lora_trainee import LoraTrainee

        if isinstance(trainee, LoraTrainee):
            trainee.release()


SIZES: dict[str, dict[str, tuple[int, int]]] = {
    EAGLE: {"window": (1, 4096), "steps": (1, 8)},
    HIDDEN: {"bottleneck": (1, 16384), "heads": (0, 128), "head_dim": (1, 512)},
    LORA: {"rank": (1, 512)},
    NGRAM: {"order": (1, 8)},
    KV: {"bottleneck": (1, 16384)},
}
"""Sizes one may ask for, with the least and the most of each."""

TAKES_DRAFT = frozenset({HIDDEN, LORA, KV})
"""Kinds in which the draft takes part."""


def _eagle(side: TraineeSide) -> Trainee:
    from engines.training.eagle_trainee import EagleTrainee

    return EagleTrainee(
        side.target.language_model, window=side.size("window", 16), steps=side.size("steps", 3), seed=side.seed
    )


def _hidden(side: TraineeSide) -> Trainee:
    from engines.adapters.hidden import HiddenSizes
    from engines.training.hidden_trainee import HiddenTrainee

    target, draft = side.target.language_model, side.paired.language_model
    width = target.config.hidden_size
    sizes = HiddenSizes(
        draft.config.hidden_size,
        width,
        side.size("bottleneck", 2 * width),
        side.size("heads", 4),
        side.size("head_dim", 32),
    )
    return HiddenTrainee(target, sizes, seed=side.seed)


def _lora(side: TraineeSide) -> Trainee:
    from engines.training.lora_trainee import LoraTrainee

    draft = side.paired
    alignment = align(draft.vocabulary, side.target.vocabulary)
    return LoraTrainee(draft.language_model, alignment, rank=side.size("rank", 16), seed=side.seed)


def _ngram(side: TraineeSide) -> Trainee:
    from engines.adapters.ngram import ORDER
    from engines.training.ngram_trainee import NgramTrainee

    return NgramTrainee(side.target.language_model.rows, order=side.size("order", ORDER))


def _kv(side: TraineeSide) -> Trainee:
    from engines.training.kv_trainee import KvTrainee

    return KvTrainee(
        side.paired.language_model,
        side.target.language_model,
        bottleneck=side.size("bottleneck", 64),
        seed=side.seed,
    )


_MAKERS: dict[str, Callable[[TraineeSide], Trainee]] = {
    EAGLE: _eagle,
    HIDDEN: _hidden,
    LORA: _lora,
    NGRAM: _ngram,
    KV: _kv,
}
