"""Several prompts of one model as one left-padded batch: prefilled together, decoded one step for all rows at a time.

Row i is the answer its prompt gets alone (token for token in fp32). A row that has ended is fed on and ignored until
the last one ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from statistics import median

import torch
from torch.nn.utils.rnn import pad_sequence

from engines.decoder.decoding import CachedModel, DecodeStep, Limits, TokenReader, make_reader
from engines.decoder.kv_cache import STATIC, CacheWeight, weigh
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import Sampler, greedy, make_sampler
from engines.fit.verdict import make_room
from engines.hardware.device import use_threads
from engines.loading.warm_models import Loader, WarmModels
from engines.loading.weights import load_model
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import NullClock
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import capacity_of, taken_cache
from engines.tokens.uploads import upload
from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import StopFlag, monotonic_ns
from evprof.core.records import BatchRow
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.generation import GenerationSettings


@dataclass(frozen=True)
class BatchAnswer:
    """The ids of each row (end of sequence included) and the costs of a batch. `vision_ms` is None for given
    embeddings; `step_ms` is the median step; `cache` counts padding."""

    ids: tuple[tuple[int, ...], ...]
    texts: tuple[str, ...]
    prompt_lengths: tuple[int, ...]
    vision_ms: float | None
    prefill_ms: float
    decode_ms: float
    step_ms: float | None
    cache: CacheWeight

    @property
    def tokens(self) -> int:
        return sum(map(len, self.ids))


def generate_batch(
    model: VisionLanguageModel,
    requests: Sequence[tuple[Sample, str]],
    settings: GenerationSettings,
    *,
    stop: StopFlag,
    step: DecodeStep | None = None,
) -> BatchAnswer:
    """Answers (sample, prompt) pairs as one batch. Raises UserError for a bad input and Cancelled when stopped."""
    nothing, kind = NullClock(), taken_cache(settings.switches.cache)
    prompts, began_ns = [], monotonic_ns()
    with torch.inference_mode():
        for sample, prompt in requests:
            inputs = model.preprocess(model.load(sample, settings, nothing), prompt, settings, nothing)
            prompts.append(model.embed_prompt(inputs, model.encode_vision(inputs, nothing))[0])
            if stop.is_set():
                raise Cancelled
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)
        vision_ms = ms_from_ns(monotonic_ns() - began_ns)
        eos_ids = frozenset() if settings.ignore_eos else model.vocabulary.eos_ids
        answer = decode_batch(
            model.language_model,
            prompts,
            Limits(settings.max_new_tokens, eos_ids),
            sampler=make_sampler(settings, model.device),
            stop=stop,
            kind=kind,
            capacity=capacity_of(max(len(prompt) for prompt in prompts), settings),
            prefill_chunk=settings.switches.prefill_chunk,
            step=step,
        )
    texts = tuple(model.vocabulary.decode([token for token in row if token not in eos_ids]) for row in answer.ids)
    return BatchAnswer(**{**vars(answer), "texts": texts, "vision_ms": vision_ms})


def decode_batch(
    decoder: LlamaDecoder,
    prompts: Sequence[torch.Tensor],
    limits: Limits,
    *,
    stop: StopFlag,
    sampler: Sampler = greedy,
    kind: str = STATIC,
    capacity: int | None = None,
    prefill_chunk: int = 0,
    step: DecodeStep | None = None,
    reader: TokenReader | None = None,
) -> BatchAnswer:
    """Prompts as embeddings [S_i, hidden] -> their answers. Raises Cancelled when stopped."""
    lengths = tuple(len(prompt) for prompt in prompts)
    longest, rows, device = max(lengths), len(prompts), decoder.device
    batch = CachedModel(decoder, "target", device, decoder.rows, prefill_chunk=prefill_chunk, own_step=step)
    batch.cache = make_cache(
        kind,
        decoder.config,
        capacity=capacity or longest + limits.max_new_tokens + 1,
        batch=rows,
        device=device,
        dtype=decoder.embed_tokens.weight.dtype,
    )
    if min(lengths) < longest:
        batch.cache.padding = upload([longest - length for length in lengths], device)
    reader = reader or make_reader(device, rows)
    answers = _Rows(rows, limits)
    began_ns = monotonic_ns()
    tokens = sampler(batch.prefill(pad_sequence(list(prompts), batch_first=True, padding_side="left"), stop))
    answers.take(tokens.flatten().tolist())
    prefilled_ns = monotonic_ns()
    step_ns: list[int] = []
    chosen, before_ns = 1, prefilled_ns
    while chosen < limits.max_new_tokens and not answers.are_over and not stop.is_set():
        tokens = sampler(batch.step(tokens)[:, -1])
        chosen += 1
        answers.take(reader.push(tokens))
        now_ns = monotonic_ns()
        step_ns.append(now_ns - before_ns)
        before_ns = now_ns
    answers.take(reader.flush())
    ended_ns = monotonic_ns()
    if stop.is_set() and not answers.are_over:
        raise Cancelled
    return BatchAnswer(
        tuple(map(tuple, answers.ids)),
        (),
        lengths,
        None,
        ms_from_ns(prefilled_ns - began_ns),
        ms_from_ns(ended_ns - prefilled_ns),
        ms_from_ns(round(median(step_ns))) if step_ns else None,
        weigh(batch.cache),
    )


class _Rows:
    def __init__(self, rows: int, limits: Limits) -> None:
        self.ids: list[list[int]] = [[] for _ in range(rows)]
        self._limits = limits
        self._open = set(range(rows))

    @property
    def are_over(self) -> bool:
        return not self._open

    def take(self, ids: list[int]) -> None:
        if not ids:
            return
        for row in tuple(self._open):
            self.ids[row].append(ids[row])
            if ids[row] in self._limits.eos_ids or len(self.ids[row]) >= self._limits.max_new_tokens:
                self._open.discard(row)


class BatchModels:
    """Loads one model at a time for batches. A context: on leaving, memory is free."""

    def __init__(self, loader: Loader = load_model) -> None:
        self._warm = WarmModels(loader)

    def load(self, request: RunRequest, role: str, stop: StopFlag) -> VisionLanguageModel:
        """The model of `role`, in place of the one before. Raises UserError and Cancelled."""
        choice = request.choice_of(role)
        if choice is None:
            raise UserError(f"A batch needs a {role} model; name one with --{role}.")
        self._warm.keep_only({(choice, role)})
        make_room(request, (role,), self._warm)
        model = self._warm.get(choice, role, lambda _done, _total: None, stop).model
        use_threads([model])
        return model

    def __enter__(self) -> BatchModels:
        return self

    def __exit__(self, *_: object) -> None:
        self._warm.clear()


QUESTIONS = (
    "Describe the scene in one sentence.",
    "What is moving, and where does it go?",
    "Is it day or night?",
    "Which vehicles can be seen on the road, and how far away are they?",
    "What stands beside the road?",
    "Does the road bend?",
    "What should a driver pay attention to in the next few seconds of this scene?",
)
"""Questions beside the sample's own prompt. Of unequal length, so that a batch has to be padded."""


def _measured(
    model: VisionLanguageModel,
    asked: Sequence[tuple[Sample, str]],
    settings: GenerationSettings,
    size: int,
    stop: StopFlag,
) -> tuple[list[BatchAnswer], int | None]:
    """All requests once, in batches of `size`, and the peak memory in bytes."""
    memory, answers = StageMemory([model.device]), []
    for first in range(0, len(asked), size):
        with memory.stage("decode"):
            answers.append(generate_batch(model, asked[first : first + size], settings, stop=stop))
    facts = memory.facts(model.facts.weight_bytes or 0)
    return answers, facts.peak_allocated_bytes or facts.peak_rss_bytes


SIZES = (1, 2, 4)
REPEAT = 3
MOST_TOKENS = 32
"""Tokens of a timed answer, at most: a step costs the same at the end of a long answer but for its context."""


def batch_rows(
    model: VisionLanguageModel,
    role: str,
    samples: Sequence[Sample],
    settings: GenerationSettings,
    stop: StopFlag,
    *,
    sizes: Sequence[int] = SIZES,
    repeat: int = REPEAT,
) -> list[BatchRow]:
    """A row for each size: medians over `repeat` rounds after a warm-up, sizes forwards and backwards in turn. Raises
    UserError for bad input, Cancelled when stopped."""
    asked = requests_for(samples, max(sizes))
    timed = replace(settings, ignore_eos=True, max_new_tokens=min(settings.max_new_tokens, MOST_TOKENS))
    rounds: dict[int, list[tuple[list[BatchAnswer], int | None]]] = {size: [] for size in sizes}
    for number in range(repeat + 1):
        for size in sizes if number % 2 == 0 else reversed(sizes):
            found = _measured(model, asked, timed, size, stop)
            if number:
                rounds[size].append(found)
    return [_row(model, role, size, rounds[size], timed) for size in sizes]


def requests_for(samples: Sequence[Sample], count: int) -> list[tuple[Sample, str]]:
    own = [(sample, sample.prompt) for sample in samples]
    others = zip(cycle(samples), cycle(QUESTIONS), strict=False)
    return [*own, *islice(others, max(count - len(own), 0))][:count]


def _row(
    model: VisionLanguageModel,
    role: str,
    size: int,
    rounds: Sequence[tuple[list[BatchAnswer], int | None]],
    settings: GenerationSettings,
) -> BatchRow:
    peaks = [peak for _, peak in rounds if peak is not None]
    answers = rounds[0][0]
    requests, tokens = sum(len(answer.ids) for answer in answers), sum(answer.tokens for answer in answers)
    # Load, preprocess and vision run for one sample after the other, whatever the size.
    before = [sum(answer.vision_ms or 0.0 for answer in each) for each, _ in rounds]
    prefill = [sum(answer.prefill_ms for answer in each) for each, _ in rounds]
    decode = [sum(answer.decode_ms for answer in each) for each, _ in rounds]
    decoded = [sum(answer.tokens - len(answer.ids) for answer in each) for each, _ in rounds]
    return BatchRow(
        model=model.facts.name,
        role=role,
        device=model.facts.device,
        dtype=model.facts.dtype,
        batch=size,
        requests=requests,
        n=len(rounds),
        positions=max(length for answer in answers for length in answer.prompt_lengths),
        new_tokens=settings.max_new_tokens,
        tokens=tokens,
        before_ms=median(before),
        prefill_ms=median(prefill),
        decode_ms=median(decode),
        samples_per_s=median(1000 * requests / sum(parts) for parts in zip(before, prefill, decode, strict=True)),
        decode_tok_s=median(1000 * count / ms for count, ms in zip(decoded, decode, strict=True))
        if decoded[0]
        else None,
        peak_bytes=max(peaks) if peaks else None,
        peak_of="allocated" if model.device.type == "cuda" else "rss",
        cache_bytes=max(answer.cache.stored for answer in answers),
    )
