"""Several prompts of one model as one left-padded batch: prefilled together, decoded a step for all rows at a time.

Row i is the answer its prompt gets alone (token for token in fp32). A row that has ended is fed on and ignored until
the last one ends. It knows language models and embeddings; `generate_batch` brings samples through the earlier stages.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from engines.decoder.cache_choice import make_cache
from engines.decoder.decoding import CachedModel, DecodeStep, Limits, TokenReader, make_reader
from engines.decoder.kv_cache import STATIC, CacheWeight, weigh
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Sampler, greedy, make_sampler
from engines.measuring.timing import NullClock
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import capacity_of, taken_cache
from engines.tokens.uploads import upload
from evprof.core.clock import monotonic_ns
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.sample import Sample
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.generation import GenerationSettings


@dataclass(frozen=True)
class BatchAnswer:
    """What a batch gave: ids per row (end-of-sequence included where it came), and what it took.

    `vision_ms` is None where embeddings were given; `step_ms` is the median of the steps, host time; `cache` counts
    padding too, which a cache of rows really holds.
    """

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
        """Tokens of all rows."""
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
        _wait(model.device)
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
    """Prompts as embeddings [S_i, hidden] -> their answers. `capacity` is that of the cache, by default what is needed.

    Raises Cancelled when stopped.
    """
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
        ms_from_ns(round(statistics.median(step_ns))) if step_ns else None,
        weigh(batch.cache),
    )


class _Rows:
    """The rows' ids so far; a row that is over takes no more."""

    def __init__(self, rows: int, limits: Limits) -> None:
        self.ids: list[list[int]] = [[] for _ in range(rows)]
        self._limits = limits
        self._open = set(range(rows))

    @property
    def are_over(self) -> bool:
        """Whether every row is."""
        return not self._open

    def take(self, ids: list[int]) -> None:
        """One id for every row, or nothing yet."""
        if not ids:
            return
        for row in tuple(self._open):
            self.ids[row].append(ids[row])
            if ids[row] in self._limits.eos_ids or len(self.ids[row]) >= self._limits.max_new_tokens:
                self._open.discard(row)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
