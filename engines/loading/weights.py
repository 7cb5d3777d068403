"""Finds a model by name, checks names and shapes of its tensors against its configuration, and loads it."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engines import CATALOGUE, bundled_folder
from engines.adapters.lora import load_lora
from engines.checkpoints.config import ModelConfig, edge
from engines.checkpoints.naming import is_left_out, is_old_buffer, source_name, split_layers, with_layers
from engines.checkpoints.shards import (
    StoredTensor,
    folder_content,
    has_weights,
    read_headers,
    read_json,
    read_tensors,
    weight_files,
)
from engines.decoder.kv_cache import STATIC
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantization import check_quantization, held_bytes, quantize_weights
from engines.decoder.quantized_kv import make_cache
from engines.families.loaded_model import Network
from engines.families.networks import build_empty, engine_family, finish, parameter_shapes, put_parameter, read_config
from engines.hardware.device import choose_device, choose_dtype, dtype_name
from engines.loading.shapes import PREFIX, build_random, random_config, random_vocabulary, text_shape, vision_shape
from engines.stages.model import VisionLanguageModel
from engines.stages.pixel_values import ClipTransform
from engines.stages.reading import import_readers
from engines.tokens.tokenization import Vocabulary, read_vocabulary
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.protocols import StopFlag
from evprof.core.run_info import ModelFacts
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import read_adapter


@dataclass(frozen=True)
class TensorPlan:
    """Which stored tensor fills which parameter, by module name. `missing` are published names; `strangers` have no
    place; `misshaped` come with the expected shape; `skipped` tables are computed anew."""

    sources: dict[str, StoredTensor]
    missing: tuple[str, ...]
    strangers: tuple[StoredTensor, ...]
    misshaped: tuple[tuple[StoredTensor, tuple[int, ...]], ...]
    skipped: tuple[str, ...]

    @property
    def surplus(self) -> list[str]:
        return [tensor.name for tensor in self.strangers]


def with_stored_rows(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> ModelConfig:
    family = engine_family(config.family)
    names = family.names
    wanted = [names.published("language_model.model.embed_tokens.weight")]
    if not config.text.tie_word_embeddings:
        wanted.append(names.published("language_model.lm_head.weight"))
    shapes = {family.canonical(name): tensor.shape for name, tensor in stored.items()}
    rows = {shapes[name][0] if name in shapes and len(shapes[name]) == 2 else 0 for name in wanted}
    if len(rows) != 1 or (found := rows.pop()) in (0, config.text.vocab_size):
        return config
    text = copy.deepcopy(config.text)
    said = (
        f"Embeddings and head have {found:,} rows where config.json says {text.vocab_size:,}; the stored rows are used."
    )
    text.vocab_size = found
    return replace(config, text=text, assumptions=(*config.assumptions, said))


def plan_tensors(config: ModelConfig, network: Network, stored: Mapping[str, StoredTensor]) -> TensorPlan:
    family = engine_family(config.family)
    names = family.names
    wanted = {
        names.published(source_name(config, name)): (name, shape) for name, shape in parameter_shapes(network).items()
    }
    sources: dict[str, StoredTensor] = {}
    strangers: list[StoredTensor] = []
    skipped: list[str] = []
    misshaped: list[tuple[StoredTensor, tuple[int, ...]]] = []
    tied = config.text.tie_word_embeddings
    for stored_name, tensor in stored.items():
        name = family.canonical(stored_name)
        if is_left_out(config, names.module(name)):
            continue
        if name in wanted:
            module_name, shape = wanted[name]
            if tensor.shape != shape:
                misshaped.append((tensor, shape))
            elif module_name in sources:
                strangers.append(tensor)
            else:
                sources[module_name] = tensor
        elif is_old_buffer(name) or (tied and name.endswith("lm_head.weight")):
            skipped.append(stored_name)
        else:
            strangers.append(tensor)
    present = {family.canonical(name) for name in stored}
    missing = [name for name in wanted if name not in present]
    return TensorPlan(sources, tuple(missing), tuple(strangers), tuple(misshaped), tuple(skipped))


def plan_problems(folder: Path, plan: TensorPlan) -> list[str]:
    """One sentence per kind of mismatch, naming the first tensor and its file; empty when all is well."""
    problems: list[str] = []
    qformer = [each for each in plan.strangers if "query_embeddings" in each.name or "attention_layers" in each.name]
    if qformer:
        problems.append(
            f"{qformer[0].path} holds '{qformer[0].name}', a Q-Former's tensor; EventGPT with a Q-Former is not "
            "supported."
        )
    if plan.missing:
        more = _more(plan.missing)
        problems.append(
            f"{folder} lacks the tensor '{plan.missing[0]}'{more} that its config.json asks for; download the missing "
            "weight file."
        )
    strangers = [tensor for tensor in plan.strangers if tensor not in qformer]
    if strangers:
        more = _more(strangers)
        problems.append(
            f"{strangers[0].path} holds the tensor '{strangers[0].name}'{more} that its config.json has no place for; "
            "check that weights and config.json belong together."
        )
    if plan.misshaped:
        tensor, wanted = plan.misshaped[0]
        more = _more(plan.misshaped)
        problems.append(
            f"{tensor.path}: the tensor '{tensor.name}'{more} has shape {list(tensor.shape)}, but config.json makes it "
            f"{list(wanted)}; check that weights and config.json belong together."
        )
    return problems


def _more(names: Sequence[object]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


Progress = Callable[[int, int], None]
"""Told bytes done of bytes in all."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_SMALL_FILES = ["*.json", "tokenizer.model", "merges.txt"]
_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
"""What is fetched from the hub: beside the small files the first of these that are there."""

_PREPROCESSING_FILES = ("preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json")
"""What three generations of transformers call the description of how pictures are prepared."""


@dataclass(frozen=True)
class Checkpoint:
    """A found model: its configuration, and its folder (None for random weights)."""

    name: str
    config: ModelConfig
    folder: Path | None


def find_checkpoint(name: str, clip: str | None = None, *, with_weights: bool = False) -> Checkpoint:
    """A bundled name, a `random:` name, a folder or a hub id -> what it is, without weights. `:layers=N` keeps N layers
    (see `naming`). `clip` is a CLIP folder for EventGPT. Of an uncached hub id it fetches the small files, and
    `with_weights` all. Raises UserError."""
    whole, count = split_layers(name)
    if count is not None:
        found = find_checkpoint(whole, clip, with_weights=with_weights)
        return replace(found, name=f"{found.name}:layers={count}", config=with_layers(found.config, found.name, count))
    if name.startswith(PREFIX):
        return Checkpoint(name, random_config(name), None)
    folder = bundled_folder(name) or Path(os.path.expanduser(name))
    if not folder.is_dir():
        folder = _hub_folder(name, with_weights)
    try:
        stored = read_headers(folder)
    except UserError:
        # Told when weights are asked for; the configuration is worth knowing without them.
        stored = {}
    config = read_config(folder, clip, stored=stored)
    return Checkpoint(name if bundled_folder(name) else _short_name(name), with_stored_rows(config, stored), folder)


def _short_name(name: str) -> str:
    return name if _HUB_ID.match(name) and not Path(name).exists() else Path(os.path.expanduser(name)).resolve().name


def _hub_folder(name: str, with_weights: bool) -> Path:
    if any(entry.name == name for entry in CATALOGUE):
        raise UserError(f"The bundled model '{name}' is missing from this installation; install evprof again.")
    if Path(os.path.expanduser(name)).is_file():
        raise UserError(f"{name} is a file; name the checkpoint folder it lies in.", exit_code=USAGE)
    if not _HUB_ID.match(name):
        known = ", ".join(entry.name for entry in CATALOGUE)
        raise UserError(f"There is no folder {name}, and no model of that name; evprof brings {known}.")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        cached = Path(snapshot_download(name, allow_patterns=[*_SMALL_FILES, *_WEIGHT_FILES], local_files_only=True))
        # Some other program may have fetched parts, or been stopped half-way.
        read_json(cached / "config.json")
        if with_weights:
            weight_files(cached)
    except (LocalEntryNotFoundError, UserError):
        pass
    else:
        return cached
    try:
        fetched = Path(snapshot_download(name, allow_patterns=_SMALL_FILES))
        for weights in _WEIGHT_FILES if with_weights else ():
            fetched = Path(snapshot_download(name, allow_patterns=[*_SMALL_FILES, weights]))
            if has_weights(fetched):
                break
        return fetched
    except (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise UserError(
            f"There is no folder {name}, the Hugging Face cache holds no such model, and it could not be fetched: "
            f"{_hub_reason(error)}; check the name, or name a checkpoint folder."
        ) from None


def _hub_reason(error: Exception) -> str:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return "the hub asks for permission first; log in with hf auth login"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no model of that name, or it is private"
    return "the hub cannot be reached"


def load_model(choice: ModelChoice, role: str, progress: Progress, stop: StopFlag) -> VisionLanguageModel:
    """Loads a model tensor by tensor for any `role`. Raises UserError for a bad name, file or device, Cancelled when
    stopped."""
    checkpoint = find_checkpoint(choice.name, choice.clip, with_weights=True)
    import_readers()
    device = choose_device(choice.device)
    dtype = choose_dtype(choice.dtype, device)
    # Weights that are to be packed wait beside the device: it never has to hold them as they are in the files.
    first_home = device
    if choice.quantization is not None:
        check_quantization(choice.quantization, device)
        first_home = torch.device("cpu")
    config, folder = checkpoint.config, checkpoint.folder
    family = engine_family(config.family)
    lora = None if choice.lora is None else read_adapter(choice.lora)
    said: tuple[str, ...] = ()
    if folder is None:
        network = build_random(config, device, dtype, progress, stop, home=first_home)
        vocabulary: Vocabulary = random_vocabulary(config)
        transform = ClipTransform.square(edge(config.vision))
    else:
        vocabulary = read_vocabulary(folder, prefer_file=family.writes_tokenizer_file, rows=config.text.vocab_size)
        transform = preprocessing_of(folder, config)
        network, said = _read_network((folder, config), first_home, dtype, progress, stop)
    rows = checkpoint.config.text.vocab_size
    if vocabulary.size > rows:
        raise UserError(
            f"{checkpoint.name}: the tokenizer has {vocabulary.size:,} tokens but the model only {rows:,} rows; "
            "they do not belong together."
        )
    said = (*said, *rows_sentence(config, vocabulary))
    facts = model_facts(checkpoint, network, device, dtype)
    decoder = LlamaDecoder.take_over(network.language_model)
    # What is left of transformers' module are views that nothing calls.
    del network.language_model
    if lora is not None:
        load_lora(lora, decoder)
    if choice.quantization is not None:
        quantize_weights(decoder, choice.quantization, device, stop)
        network.to(device)
    pixels = edge(network.config.vision)
    with torch.inference_mode():
        network.encode_frames(torch.zeros(1, 3, pixels, pixels, device=device, dtype=dtype))
        ids = torch.ones(1, 2, device=device, dtype=torch.long)
        decoder(decoder.embed(ids), make_cache(STATIC, decoder.config, capacity=2, device=device, dtype=dtype))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if choice.quantization is not None:
        # After that pass: some CPU kernels order the packed weights anew when they first meet them.
        facts = replace(facts, quantization=choice.quantization, weight_bytes=held_bytes([network, decoder]))
    return family.model(
        network,
        decoder,
        vocabulary,
        transform,
        facts=facts,
        template=family.layout(config),
        warnings=(*config.assumptions, *said),
    )


def _read_network(
    checkpoint: tuple[Path, ModelConfig], device: torch.device, dtype: torch.dtype, progress: Progress, stop: StopFlag
) -> tuple[Network, tuple[str, ...]]:
    """The network with its weights, and what is to be said about them."""
    folder, config = checkpoint
    network = build_empty(config)
    stored, said = engine_family(config.family).completed(folder, config, read_headers(folder))
    plan = plan_tensors(config, network, stored)
    problems = plan_problems(folder, plan)
    if problems:
        raise UserError(problems[0])
    module_names = {(tensor.path, tensor.name): name for name, tensor in plan.sources.items()}
    total = sum(tensor.nbytes for tensor in plan.sources.values())
    done = 0
    progress(0, total)
    for tensor, value in read_tensors(list(plan.sources.values()), device):
        if stop.is_set():
            raise Cancelled
        put_parameter(network, module_names[(tensor.path, tensor.name)], value.to(dtype))
        done += tensor.nbytes
        progress(done, total)
    finish(network, device)
    return network, said


def preprocessing_of(folder: Path, config: ModelConfig) -> ClipTransform:
    """CLIP's preparation as the folder describes it, else CLIP's own for the tower's size. Raises UserError."""
    found = preprocessing_file(folder, config)
    pixels = edge(config.vision)
    return ClipTransform.from_file(found, pixels) if found else ClipTransform.square(pixels)


def preprocessing_file(folder: Path, config: ModelConfig) -> Path | None:
    folders = [folder]
    if config.tower_folder is not None:
        folders.insert(0, config.tower_folder)
    places = (each / name for each in folders for name in _PREPROCESSING_FILES)
    return next((place for place in places if place.is_file()), None)


def rows_sentence(config: ModelConfig, vocabulary: Vocabulary) -> tuple[str, ...]:
    rows, published = config.text.vocab_size, engine_family(config.family).published_rows
    if rows == published or rows == vocabulary.size < published or not published:
        return ()
    return (
        f"The embeddings have {rows:,} rows, {FAMILIES[config.family].title} as published {published:,} and the "
        f"tokenizer {vocabulary.size:,} entries; tokens without an entry have no text.",
    )


def model_facts(checkpoint: Checkpoint, network: Network, device: torch.device, dtype: torch.dtype) -> ModelFacts:
    config = checkpoint.config
    text = config.text
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return ModelFacts(
        name=checkpoint.name,
        family=config.family,
        model_type=config.model_type,
        parameters=parameters,
        weight_bytes=sum(parameter.nbytes for parameter in network.parameters()),
        dtype=dtype_name(dtype),
        device=str(device),
        quantization=None,
        layers=text.num_hidden_layers,
        kv_heads=text.num_key_value_heads or text.num_attention_heads,
        head_dim=text.head_dim or text.hidden_size // text.num_attention_heads,
        kv_element_bytes=dtype.itemsize,
        context_limit=text.max_position_embeddings,
        attention="sdpa",
        cache=STATIC,
        prompt_template=engine_family(config.family).layout(config).name,
        text=text_shape(text),
        vision=replace(vision_shape(config), frames=1),
        content=None if checkpoint.folder is None else folder_content(checkpoint.folder, config.kept_layers),
    )


def content_identity(choice: ModelChoice) -> str:
    """The content of the folder (see `folder_content`) after the quantization; the name of random weights. Raises
    UserError."""
    quantized = f"{choice.quantization}:" if choice.quantization else ""
    checkpoint = find_checkpoint(choice.name, choice.clip)
    if checkpoint.folder is None:
        return f"{quantized}{choice.name}"
    return f"{quantized}{folder_content(checkpoint.folder, checkpoint.config.kept_layers)}"
