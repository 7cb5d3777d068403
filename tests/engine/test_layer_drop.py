"""Models with layers left out: which stay, whose weights they have, and what they are refused for."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from engines.checkpoints.naming import kept_layers, split_layers
from engines.loading.weights import find_checkpoint, load_model
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.generation import ModelChoice

TARGET, DRAFT = "evprof-tiny-video-llava", "evprof-tiny-eventgpt"


def loaded(name: str) -> Any:
    return load_model(ModelChoice(name, "cpu"), "target", lambda *_: None, threading.Event())


def test_names_end_in_the_number_of_layers() -> None:
    assert split_layers("some/model:layers=12") == ("some/model", 12)
    for name in ("some/model", "a:layers=", "a:layers=x", "a:layers=3/b", "C:\\models\\llava"):
        assert split_layers(name) == (name, None)


@pytest.mark.parametrize(("count", "kept"), [(1, (0,)), (2, (0, 9)), (4, (0, 3, 6, 9)), (10, tuple(range(10)))])
def test_layers_are_spread_evenly_from_the_first_to_the_last(count: int, kept: tuple[int, ...]) -> None:
    assert kept_layers(10, count) == kept
    assert len(set(kept_layers(32, 17))) == 17


@pytest.mark.parametrize("name", [TARGET, DRAFT])
def test_kept_layers_have_the_weights_they_had(name: str) -> None:
    whole, few = loaded(name), loaded(f"{name}:layers=3")
    layers = whole.facts.layers
    assert (few.facts.name, few.facts.layers) == (f"{name}:layers=3", 3)
    for place, index in enumerate(kept_layers(layers, 3)):
        mine, theirs = few.language_model.layers[place], whole.language_model.layers[index]
        assert torch.equal(mine.qkv.weight, theirs.qkv.weight)
        assert torch.equal(mine.down.weight, theirs.down.weight)
    assert torch.equal(few.language_model.embed_tokens.weight, whole.language_model.embed_tokens.weight)
    assert any("3 are kept: 0," in sentence for sentence in few.warnings)


def test_random_weights_are_left_out_alike() -> None:
    whole, few = loaded("random:160m-llava"), loaded("random:160m-llava:layers=2")
    assert torch.equal(few.language_model.layers[1].out.weight, whole.language_model.layers[11].out.weight)


@pytest.mark.parametrize("count", [0, 11])
def test_layers_a_model_does_not_have_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"{TARGET} has 10 layers; ask for 1 to 10") as caught:
        find_checkpoint(f"{TARGET}:layers={count}")
    assert caught.value.exit_code == USAGE
