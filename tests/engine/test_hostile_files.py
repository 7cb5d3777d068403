"""Untrusted checkpoints and vocabularies never run code and never fill memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPVisionConfig, LlamaConfig

from checkpoint_folders import WEIGHTS, write_eventgpt
from engines.checkpoints import shards as pickled_weights
from engines.checkpoints.shards import open_bin, read_headers, read_tensors
from engines.families.eventgpt import EventGptConfig, EventGptModel
from engines.families.networks import read_config
from engines.inspection import inspect_checkpoint
from engines.loading.weights import load_model
from engines.tokens.tokenization import FileVocabulary, SentencePieceVocabulary
from engines.tokens.tokenizer_file import check_sentencepiece
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import ModelChoice

MANY = 1 << 40
BUNDLED = Path(__file__).parents[2] / "assets" / "models" / "evprof-tiny-eventgpt" / "tokenizer.model"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes: Any = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = CLIPVisionConfig(**sizes, image_size=28, patch_size=14)
    text = LlamaConfig(**sizes, vocab_size=765, num_key_value_heads=2, max_position_embeddings=64)
    folder = tmp_path_factory.mktemp("hostile") / "m"
    write_eventgpt(folder, EventGptModel(EventGptConfig(vision, text)), BUNDLED.read_bytes())
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "m"))


@contextmanager
def little_memory() -> Iterator[None]:
    """Whoever asks for more than two gigabytes beyond what is there gets none; on Linux, where that can be had."""
    if sys.platform != "linux":
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_model(ModelChoice(str(folder), device="cpu"), "draft", lambda *_: None, threading.Event())
    with pytest.raises(UserError):
        _raise_problems(folder)
    return caught.value.sentence


def _raise_problems(folder: Path) -> None:
    """Looking at a checkpoint refuses it, too, or names what is wrong."""
    for sentence in inspect_checkpoint(str(folder))["problems"]:
        raise UserError(sentence)


# Pickles.


class Call:
    """Asks whoever unpickles it to call something."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def zipped(content: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file as torch.save makes it, with somebody else's pickle in it."""
    whole = io.BytesIO()
    torch.save({"a": torch.zeros(4)}, whole)
    changed = io.BytesIO()
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(changed, "w", compression) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, content if entry.filename.endswith("data.pkl") else source.read(entry))
    return changed.getvalue()


BOMBS = {
    "command": Call(os.system, "touch owned"),
    "file": Call(Path.touch, Path("owned")),
    "bytes": Call(bytearray, MANY),
    "evaluation": Call(eval, "open('owned', 'w')"),
}


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("bomb", ["command", "file", "bytes", "evaluation"])
def test_a_pickle_that_asks_for_anything_else_is_not_carried_out(
    bomb: str, is_zip: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    content = pickle.dumps({"a": BOMBS[bomb]}, protocol=2)
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(zipped(content) if is_zip else content)
    with little_memory():
        sentence = refused(folder)
    assert "pytorch_model.bin" in sentence
    assert ("weights do not need" if is_zip else "PyTorch 1.6") in sentence
    assert not (folder / "owned").exists()


def test_a_storage_of_any_size_is_not_made(tmp_path: Path) -> None:
    """Its name is one that weights do need."""
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(zipped(pickle.dumps({"a": Call(torch.FloatStorage, MANY)}, protocol=2)))
    with pytest.raises(UserError, match="cannot be read as plain weights"), little_memory():
        open_bin(path)


def test_other_ways_to_name_a_function_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    for protocol in (0, 4, 5):
        path.write_bytes(zipped(pickle.dumps({"a": Call(bytearray, 1)}, protocol=protocol)))
        with pytest.raises(UserError, match="pytorch_model"), little_memory():
            open_bin(path)


def test_a_tensor_that_claims_more_than_is_stored_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"wide": torch.zeros(1).expand(MANY)}, path)
    with pytest.raises(UserError, match="'wide' claims more"), little_memory():
        open_bin(path)


def test_compressed_and_endless_archives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(zipped(b"\x00" * 50_000_000, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 200_000
    with pytest.raises(UserError, match="compressed"):
        open_bin(path)
    monkeypatch.setattr(pickled_weights, "_MOST_PICKLE_BYTES", 1000)
    path.write_bytes(zipped(b"\x00" * 1001))
    with pytest.raises(UserError, match="1,001 bytes of names"):
        open_bin(path)


@pytest.mark.parametrize("value", [[torch.zeros(1)], {"a": {"b": torch.zeros(1)}}, {"a": 1}, torch.zeros(2)])
def test_other_things_than_named_tensors_are_refused(value: object, tmp_path: Path) -> None:
    torch.save(value, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="something other than named tensors"):
        open_bin(tmp_path / "pytorch_model.bin")


@pytest.mark.parametrize(
    "value", [torch.nn.Parameter(torch.randn(3)), torch.randn(4).bfloat16(), torch.arange(6).view(2, 3).t()]
)
def test_every_plain_way_to_store_a_tensor_is_read(value: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": value, "b": value}, path)
    opened = open_bin(path)
    assert torch.equal(opened["a"], value)
    headers = read_headers(tmp_path)
    assert headers["b"].shape == tuple(value.shape)
    for _, tensor in read_tensors(list(headers.values()), torch.device("cpu")):
        assert torch.equal(tensor, value)
        assert tensor.untyped_storage().nbytes() == value.nbytes


# safetensors.


def with_header(header: object, data: bytes = b"\x00" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(start: int, stop: int, shape: list[Any], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


HEADERS: dict[str, tuple[bytes, str]] = {
    "endless": (struct.pack("<Q", MANY) + b"{}", "truncated"),
    "no object": (with_header([1, 2]), "unreadable"),
    "deep": (with_header(b"[" * 200_000 + b"]" * 200_000), "unreadable"),
    "long number": (with_header(b'{"a":' + b"1" * 5000 + b"}"), "unreadable"),
    "huge shape": (with_header({"a": entry(0, 8, [MANY, MANY])}), "unreadable"),
    "negative shape": (with_header({"a": entry(0, 8, [-1, -2])}), "unreadable"),
    "text as shape": (with_header({"a": entry(0, 8, ["two"])}), "unreadable"),
    "no offsets": (with_header({"a": {"dtype": "F32", "shape": [2]}}), "unreadable"),
    "before the start": (with_header({"a": entry(-8, 0, [2])}), "damaged"),
    "overlap": (with_header({"a": entry(0, 8, [2]), "b": entry(0, 8, [2])}), "does not begin where"),
    "gap": (with_header({"a": entry(4, 8, [1])}), "does not begin where"),
    "past the end": (with_header({"a": entry(0, MANY, [MANY // 4])}), "damaged"),
    "rest": (with_header({"a": entry(0, 4, [1])}), "damaged"),
    "400 dimensions": (with_header({"a": entry(0, 8, [10**300] * 400)}), "too long to be a weight's"),
    "long name": (with_header({"a" * 5000: entry(0, 8, [2])}), "too long to be a weight's"),
    "a truth as size": (with_header({"a": entry(0, 8, [True, 2])}), "unreadable"),
    "part of a size": (with_header({"a": entry(0, 8, [2.5])}), "unreadable"),
    "endless offset": (
        with_header(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,1e999]}}'),
        "unreadable",
    ),
    "half an offset": (with_header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0.5, 8.5]}}), "unreadable"),
    "unknown type": (with_header({"a": entry(0, 8, [2], "F4")}), "type F4"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies_is_refused(name: str, folder: Path) -> None:
    content, part = HEADERS[name]
    (folder / WEIGHTS).write_bytes(content)
    with little_memory():
        sentence = refused(folder)
    assert part in sentence
    assert str(folder / WEIGHTS) in sentence


def test_a_file_that_shrinks_while_it_is_read_is_told(folder: Path) -> None:
    headers = read_headers(folder)
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="changed while it was read"):
        list(read_tensors(list(headers.values()), torch.device("cpu")))


def test_two_shards_may_not_hold_the_same_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    for file in ("model-1.safetensors", "model-2.safetensors"):
        save_file({name: tensors[name] for name in ("lm_head.weight",)}, folder / file)
    (folder / WEIGHTS).unlink()
    assert "both hold 'lm_head.weight'" in refused(folder)


# Indices, configurations, vocabularies.


@pytest.mark.parametrize(
    ("weight_map", "part"),
    [
        ({"a": "../../../etc/passwd"}, "'passwd'"),
        ({"a": "/etc/hostname"}, "'hostname'"),
        ({"a": 5}, "no weight file"),
        ({"a": ["model.safetensors"]}, "no weight file"),
        ({"a": "../other.safetensors"}, "other.safetensors, which is not beside it"),
        ({}, "no weight_map"),
        ([], "no weight_map"),
    ],
)
def test_an_index_stays_in_its_folder(weight_map: object, part: str, folder: Path) -> None:
    (folder.parent / "other.safetensors").write_bytes((folder / WEIGHTS).read_bytes())
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert part in refused(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "tokenizer.model"])
def test_files_far_too_long_are_not_read(name: str, folder: Path) -> None:
    """Files with a hole of a terabyte: as long as they say, and nothing on the disk."""
    with (folder / name).open("ab") as file:
        file.truncate(MANY)
    with little_memory():
        assert "far too long" in refused(folder)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"model_type": ' + "9" * 5000 + "}", "\x00", '"text"', ""])
def test_configurations_that_are_none_are_refused(content: str, folder: Path) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json"):
        read_config(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_a_configuration_does_not_hang(folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(UserError, match="a named pipe, no ordinary file"):
        read_config(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", [WEIGHTS, "pytorch_model.bin", "tokenizer.model"])
def test_pipes_in_place_of_weights_and_vocabularies_do_not_hang(name: str, folder: Path) -> None:
    if name == "pytorch_model.bin":
        (folder / WEIGHTS).unlink()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert "a named pipe, no ordinary file" in refused(folder)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_in_place_of_weights_is_refused(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("/dev/zero")
    assert "a device, no ordinary file" in refused(folder)


def test_a_padding_outside_the_vocabulary_does_no_harm(folder: Path) -> None:
    with_config(folder, pad_token_id=2**31)
    assert read_config(folder).text.pad_token_id is None
    inspect_checkpoint(str(folder))


def with_config(folder: Path, **changes: Any) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(values | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 10**9},
        {"vocab_size": 10**12},
        {"hidden_size": 0},
        {"hidden_size": 1.5},
        {"num_attention_heads": -2},
        {"num_attention_heads": 0},
        {"num_key_value_heads": 0},
        {"hidden_size": float("inf")},
        {"vocab_size": 1e300},
        {"num_hidden_layers": float("nan")},
        {"hidden_act": "__import__('os')"},
        {"rope_theta": "big"},
        {"rope_scaling": {"rope_type": "yarn"}},
        {"rope_scaling": {"rope_type": "llama3", "factor": "many"}},
        {"rope_scaling": 7},
    ],
)
def test_impossible_sizes_and_names_are_refused(changes: dict[str, Any], folder: Path) -> None:
    with_config(folder, **changes)
    with pytest.raises(UserError, match=r"config\.json"), little_memory():
        read_config(folder)


@pytest.mark.parametrize("name", ["x" * 5000, "\x00", {"a": 1}, "../" * 500, "https://a.b/c", "~nobody-here/x"])
def test_a_tower_of_any_name_is_only_not_found(name: object, folder: Path) -> None:
    with_config(folder, mm_visual_tower=name)
    config = read_config(folder)
    assert isinstance(config, EventGptConfig)
    assert config.tower_folder is None


MODELS = Path(__file__).parents[2] / "assets" / "models"
FILE = MODELS / "evprof-tiny-video-llava" / "tokenizer.json"
MODEL = MODELS / "evprof-tiny-eventgpt" / "tokenizer.model"

CATASTROPHIC = {"Regex": "(a+)+$"}


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(FILE.read_text(encoding="utf-8")), **values}).encode()


def with_model(**values: Any) -> bytes:
    return changed(model={**json.loads(FILE.read_text(encoding="utf-8"))["model"], **values})


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a catastrophic expression": (
        changed(normalizer={"type": "Replace", "pattern": CATASTROPHIC, "content": "b"}),
        "'Replace' with a regular expression",
    ),
    "an expression inside a sequence": (
        changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": CATASTROPHIC}]}),
        "'Split' with a regular expression",
    ),
    "a long replacement": (
        changed(normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10_000_000}),
        "normalizes texts by 'Replace'",
    ),
    "a long beginning": (changed(normalizer={"type": "Prepend", "prepend": "x" * 5_000_000}), "'Prepend'"),
    "a table of its own": (changed(normalizer={"type": "Precompiled", "precompiled_charsmap": "AA"}), "'Precompiled'"),
    "many steps": (changed(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}), "too many steps"),
    "steps in steps": (
        changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": "no"}]}),
        "splits texts by 'Sequence'",
    ),
    "another kind of vocabulary": (with_model(type="Unigram"), "'Unigram'"),
    "pieces as a list": (with_model(vocab=["a", "b"]), "no table"),
    "a piece without end": (with_model(vocab={"a" * 10_000: 0}), "a piece of more than 1,000 letters"),
    "an ending without end": (with_model(end_of_word_suffix="x" * 100_000), "without end"),
    "an added text without end": (
        changed(added_tokens=[{"id": 0, "content": "x" * 10_000, "special": True}]), "without a text"),
    "no model": (b"{}", "holds no model"),
    "a list": (b"[]", "holds no model"),
    "too deep": (b"[" * 100_000, "nested too deeply"),
    "not JSON": (b"\xff\xfe\x00", "no tokenizer file"),
    "far too long": (b" " * 26_000_000, "far too long"),
    "half a letter": (with_model(unk_token="\ud800"), "no tokenizer file"),
    "huge numbers": (with_model(vocab={"<s>": 10**30, "</s>": 1, "<unk>": 0}), "no tokenizer file"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tokenizer_file_made_to_harm_is_refused(name: str) -> None:
    content, words = HOSTILE[name]
    with pytest.raises(UserError) as told:
        FileVocabulary(content, "/models/x/tokenizer.json")
    assert words in told.value.sentence
    assert told.value.sentence.startswith("/models/x/tokenizer.json")
    assert len(told.value.sentence) < 500


def test_padding_and_dropout_of_a_file_are_not_used() -> None:
    """A padding to a thousand million tokens would fill the memory; ids with dropout would differ from run to run."""
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    plain = FileVocabulary(FILE.read_bytes())
    text = "What are the key elements in this scene?"
    assert FileVocabulary(changed(padding=padding)).encode(text) == plain.encode(text)
    dropping = FileVocabulary(with_model(dropout=0.9))
    assert {tuple(dropping.encode(text)) for _ in range(5)} == {tuple(plain.encode(text))}


def test_published_forms_are_read() -> None:
    """As Llama's own files have been written over the years: by a normalizer, or by Metaspace."""
    plain = FileVocabulary(FILE.read_bytes())
    newer = changed(
        normalizer=None,
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
    )
    assert FileVocabulary(newer).encode("a scene") == plain.encode("a scene")


def train(rule: str) -> bytes:
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a car drives on a road", "the road is long and wide"] * 5), model_writer=model,
        vocab_size=40, model_type="bpe", normalization_rule_name=rule, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


def test_a_model_that_rewrites_texts_is_refused() -> None:
    check_sentencepiece(train("identity"), "m")
    with pytest.raises(UserError, match="rewrites texts by a table of its own"):
        SentencePieceVocabulary(train("nmt_nfkc"), "m")


def test_damaged_models_are_refused_before_the_library_reads_them() -> None:
    """Cut anywhere, and with every byte of the beginning changed: a sentence, or a vocabulary that works."""
    model = MODEL.read_bytes()
    refused = 0
    for cut in range(1, len(model), 997):
        with pytest.raises(UserError):
            SentencePieceVocabulary(model[:cut], "m")
    for place in range(300):
        for value in (0x00, 0x7F, 0xFF):
            damaged = bytearray(model)
            damaged[place] = value
            try:
                SentencePieceVocabulary(bytes(damaged), "m").encode("a scene")
            except UserError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a Llama vocabulary is needed"),
        (b"\x0a\xff\xff\xff\xff\x0f", "ends in the middle"),
        (b"\x0a" + b"\xff" * 20, "does not end"),
        (b"\x0b", "no protocol buffer"),
        (b"\x00" * 26_000_000, "far too long"),
        (b"\x0a\xd4\x0f\x0a\xd0\x0f" + b"x" * 2000, "ends in the middle"),
    ],
)
def test_models_that_are_none(content: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        SentencePieceVocabulary(content, "m")
