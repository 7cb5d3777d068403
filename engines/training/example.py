"""One collected answer with both models' states: made from a sample, and stored as safetensors with checked sizes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from engines.checkpoints.shards import StoredTensor, read_tensors, safetensors_header
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import STATIC, KvCache
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import greedy
from engines.measuring.timing import NullClock
from engines.stages.model import ModelInputs, VisionLanguageModel
from engines.tokens.answer import SilentAnswer
from engines.tokens.vocabulary_alignment import align
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.files.whole_file import whole_binary
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.loaders.collection import SHARD_EXAMPLES, CollectedExample, Collection, Shard
from evprof.loaders.paths import reason


def padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """[S_i, …] each -> [B, max S, …], zeros after the shorter ones."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


@dataclass(frozen=True, eq=False)
class Example:
    """`answer_ids` [n] is the target's greedy answer with its end of sequence. `target_embeddings` [S, H] is the
    prompt, with visual positions `target_visual` = (first, count); `target_features` [S + n - 1, H] are last hidden
    states before the last norm at the prompt and the answer's tokens but the last; `target_layers` what enters some
    layers there, side by side. `draft_*` are the same of the draft fed with the answer, in its ids. `text_ids` are the
    prompt's without visual slots."""

    name: str
    prompt: str
    answer_ids: torch.Tensor
    text_ids: torch.Tensor
    target_embeddings: torch.Tensor
    target_features: torch.Tensor
    target_visual: tuple[int, int]
    draft_embeddings: torch.Tensor | None = None
    draft_features: torch.Tensor | None = None
    draft_visual: tuple[int, int] | None = None
    target_layers: torch.Tensor | None = None

    def shortened(self, positions: int) -> Example:
        """The example with only the last `positions` of the target's prompt."""
        left_out = max(0, self.target_prompt - positions)
        first, count = self.target_visual
        begin = max(0, first - left_out)
        return replace(
            self,
            target_embeddings=self.target_embeddings[left_out:],
            target_features=self.target_features[left_out:],
            target_layers=None if self.target_layers is None else self.target_layers[left_out:],
            target_visual=(begin, max(0, first + count - left_out - begin)),
        )

    @property
    def paired(self) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
        """The draft's embeddings, features and visual positions. Raises UserError if no draft took part."""
        if self.draft_embeddings is None or self.draft_features is None or self.draft_visual is None:
            raise UserError(f"Example {self.name} was collected without a draft; collect it again with --draft.")
        return self.draft_embeddings, self.draft_features, self.draft_visual

    @property
    def layers(self) -> torch.Tensor:
        """`target_layers`. Raises UserError where they were not kept."""
        if self.target_layers is None:
            raise UserError(f"Example '{self.name}' holds no layers of the target; collect with --keep-layers auto.")
        return self.target_layers

    @property
    def target_prompt(self) -> int:
        return self.target_embeddings.shape[0]


TENSORS = (
    "answer_ids",
    "text_ids",
    "target_embeddings",
    "target_features",
    "draft_embeddings",
    "draft_features",
    "target_layers",
)
_CPU = torch.device("cpu")

KEPT_BYTES = 1 << 30


def write_shard(path: Path, examples: Sequence[Example], told: Sequence[CollectedExample], *, is_full: bool) -> Shard:
    """Writes examples as one file, whole or not at all; what the journal is to tell of it. Raises UserError."""
    tensors: dict[str, torch.Tensor] = {}
    for index, example in enumerate(examples):
        for name in TENSORS:
            value = getattr(example, name)
            if value is not None:
                tensors[f"{index:03}.{name}"] = value.detach().to(_CPU).contiguous().clone()
    content = save(tensors)
    try:
        with whole_binary(path) as stream:
            stream.write(content)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({reason(error)}); check its permissions and its free space; the same command "
            "then goes on."
        ) from None
    return Shard(path.name, len(content), hashlib.sha256(content).hexdigest(), is_full, tuple(told))


def nbytes_of(example: Example) -> int:
    values = (getattr(example, name) for name in TENSORS)
    return sum(value.numel() * value.element_size() for value in values if value is not None)


class StoredExamples(Sequence[Example]):
    """Examples of a collection, read on demand; `kept_bytes` of them stay in memory. `places` are (shard, number,
    journal entry). Raises UserError for a file that differs from the journal."""

    def __init__(
        self,
        collection: Collection,
        places: Sequence[tuple[Shard, int, CollectedExample]] | None = None,
        *,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._collection = collection
        self._places = list(collection.places()) if places is None else list(places)
        self._headers: dict[str, dict[str, StoredTensor]] = {}
        self._kept: OrderedDict[int, tuple[Example, int]] = OrderedDict()
        self._kept_bytes, self._limit_bytes = 0, kept_bytes

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        held = self._kept.get(index)
        if held is not None:
            self._kept.move_to_end(index)
            return held[0]
        example = self._read(*self._places[index])
        self._keep(index, example)
        return example

    def __iter__(self) -> Iterator[Example]:
        return (self[index] for index in range(len(self)))

    @property
    def told(self) -> list[CollectedExample]:
        return [example for _, _, example in self._places]

    def subset(self, chosen: Sequence[int]) -> StoredExamples:
        return StoredExamples(self._collection, [self._places[index] for index in chosen], kept_bytes=self._limit_bytes)

    def _keep(self, index: int, example: Example) -> None:
        size = nbytes_of(example)
        self._kept[index] = example, size
        self._kept_bytes += size
        while self._kept_bytes > self._limit_bytes and len(self._kept) > 1:
            _, (_, gone) = self._kept.popitem(last=False)
            self._kept_bytes -= gone

    def _read(self, shard: Shard, number: int, told: CollectedExample) -> Example:
        path = self._collection.folder / shard.file
        if shard.file not in self._headers:
            self._headers[shard.file] = _header(path)
        wanted = [
            entry for name in TENSORS if (entry := self._headers[shard.file].get(f"{number:03}.{name}")) is not None
        ]
        try:
            found = {tensor.name.split(".", 1)[1]: value for tensor, value in read_tensors(wanted, _CPU)}
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({reason(error)}); check its permissions and the disk.") from None
        return _checked(path, found, told, self._collection)


def _header(path: Path) -> dict[str, StoredTensor]:
    try:
        found = {tensor.name: tensor for tensor in safetensors_header(path)}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)}); check its permissions and the disk.") from None
    if len(found) > SHARD_EXAMPLES * len(TENSORS):
        raise UserError(f"{path} holds more tensors than a shard of examples has; collect them again.")
    return found


def _checked(path: Path, found: dict[str, torch.Tensor], told: CollectedExample, of: Collection) -> Example:
    """The example, if its tensors are of the sizes that the journal tells. Raises UserError."""
    positions, fed = told.positions, told.positions + told.tokens - 1
    width, own = of.target.get("hidden_size"), (of.draft or {}).get("hidden_size")
    expected: dict[str, tuple[Any, ...]] = {
        "answer_ids": (told.tokens,),
        "text_ids": (None,),
        "target_embeddings": (positions, width),
        "target_features": (fed, width),
    }
    spans = [(told.target_visual, positions)]
    if of.layers:
        expected["target_layers"] = fed, None if width is None else width * len(of.layers)
    if told.draft_visual is not None:
        rows = sum(found["draft_embeddings"].shape[:1]) if "draft_embeddings" in found else 0
        expected |= {"draft_embeddings": (rows, own), "draft_features": (rows + told.tokens - 1, own)}
        spans.append((told.draft_visual, rows))
    is_whole = (
        found.keys() == expected.keys()
        and all(_fits(found[name], shape) for name, shape in expected.items())
        and all(first + count <= size for (first, count), size in spans)
    )
    if is_whole:
        ids = torch.cat([found["answer_ids"], found["text_ids"]])
        is_whole = int(ids.min()) >= 0 and int(ids.max()) < (of.target.get("rows") or int(ids.max()) + 1)
    if not is_whole:
        raise UserError(
            f"{path}: example '{told.name}' is not what the journal beside it tells; collect the examples again."
        )
    return Example(told.name, told.prompt, target_visual=told.target_visual, draft_visual=told.draft_visual, **found)


def _fits(tensor: torch.Tensor, shape: tuple[Any, ...]) -> bool:
    """Whether ids [n] or floating values [n, width] have this shape; None fits any size."""
    is_right_kind = tensor.dtype == torch.int64 if len(shape) == 1 else tensor.is_floating_point()
    is_known = tensor.dim() == len(shape)
    return (
        is_right_kind and is_known and all(size in (None, real) for size, real in zip(shape, tensor.shape, strict=True))
    )


class Observer:
    def __init__(
        self,
        target: VisionLanguageModel,
        draft: VisionLanguageModel | None,
        settings: GenerationSettings,
        layers: tuple[int, ...] = (),
    ) -> None:
        """`layers` of the target are those of which it keeps what enters them."""
        self.target, self.draft, self._layers = target, draft, layers
        self._settings = settings
        self._alignment = None if draft is None else align(draft.vocabulary, target.vocabulary)
        for model in (target, *(() if draft is None else (draft,))):
            model.make_ready(settings)

    @torch.inference_mode()
    def example(self, sample: Sample, stop: StopFlag) -> Example:
        """Raises UserError for a sample that cannot be read, Cancelled when stopped."""
        models = {TARGET: self.target, **({} if self.draft is None else {DRAFT: self.draft})}
        for role in models:
            kind = input_of(self._settings.input, role)
            path = sample.events_path if kind == "events" else sample.video_path
            if path is None:
                what = "an event recording" if kind == "events" else "a video"
                raise UserError(f"The {role} reads {kind} and the sample has none; add {what}.", exit_code=USAGE)
        prompt, visual, inputs = self._prompt(self.target, TARGET, sample)
        if stop.is_set():
            raise Cancelled
        ids, features = self._answer(prompt, stop)
        draft_prompt = draft_features = draft_visual = None
        if self.draft is not None and self._alignment is not None:
            draft_prompt, draft_visual, _ = self._prompt(self.draft, DRAFT, sample)
            fed = self._alignment.for_draft(ids[:-1])
            draft_features = forced_features(self.draft.language_model, draft_prompt, fed)[0]
        states = features.split(self.target.language_model.config.hidden_size, dim=-1)
        inside = states[: len(self._layers)]
        return Example(
            sample.name,
            sample.prompt,
            torch.tensor(ids),
            inputs.text_ids,
            prompt[0],
            states[-1],
            visual,
            None if draft_prompt is None else draft_prompt[0],
            draft_features,
            draft_visual,
            torch.cat(inside, dim=-1) if inside else None,
        )

    def _prompt(
        self, model: VisionLanguageModel, role: str, sample: Sample
    ) -> tuple[torch.Tensor, tuple[int, int], ModelInputs]:
        clock = NullClock()
        host = model.load(sample, self._settings, clock, kind=input_of(self._settings.input, role))
        inputs = model.preprocess(host, sample.prompt, self._settings, clock)
        embeddings = model.embed_prompt(inputs, model.encode_vision(inputs, clock))
        return embeddings, visual_span(inputs), inputs

    def _answer(self, prompt: torch.Tensor, stop: StopFlag) -> tuple[list[int], torch.Tensor]:
        model, most = self.target, self._settings.max_new_tokens
        eos_ids = frozenset() if self._settings.ignore_eos else model.vocabulary.eos_ids
        heard = Listening(model.language_model, TARGET, model.device, model.language_model.rows, keeps_features=True)
        if self._layers:
            heard.reads = tuple(sorted({*self._layers, model.language_model.config.num_hidden_layers}))
        # Two positions beyond the answer: on a GPU tokens are read one step late.
        heard.cache = _cache(model.language_model, prompt, prompt.shape[1] + most + 2)
        answer = SilentAnswer()
        first = greedy(heard.prefill(prompt, stop))
        states = [heard.features[0]] if heard.features is not None else []
        answer.add(int(first))
        decode(heard, first, answer, Limits(most, eos_ids), sampler=greedy, clock=NullClock(), stop=stop)
        states += heard.steps[: len(answer.ids) - 1]
        return list(answer.ids), torch.cat(states)


@dataclass
class Listening(CachedModel):
    steps: list[torch.Tensor] = field(default_factory=list)

    def step(self, ids: torch.Tensor, keep: int = 1) -> torch.Tensor:
        logits = super().step(ids, keep)
        if self.features is not None:
            self.steps.append(self.features[0, -1:])
        return logits


def forced_features(decoder: LlamaDecoder, prompt: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """Last hidden states [1, S + n, hidden], before the last norm, of a prompt [1, S, hidden] and n ids after it."""
    fed = prompt
    if ids:
        fed = torch.cat([prompt, decoder.embed(torch.tensor([list(ids)], device=prompt.device))], dim=1)
    return decoder.trunk(fed, _cache(decoder, prompt, fed.shape[1]))


def visual_span(inputs: ModelInputs) -> tuple[int, int]:
    """First visual position of a prompt, and the number of positions to the end of the last one."""
    slots, visual = inputs.slots, inputs.lengths.visual
    return slots[0], slots[-1] - slots[0] + visual


def _cache(decoder: LlamaDecoder, like: torch.Tensor, capacity: int) -> KvCache:
    return make_cache(STATIC, decoder.config, capacity=capacity, device=like.device, dtype=like.dtype)
