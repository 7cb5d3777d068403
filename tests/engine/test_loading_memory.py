"""Memory while a model is loaded: the weights once, and one tensor on its way; never a second copy of the model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig

from checkpoint_folders import write_eventgpt
from engines.families.eventgpt import EventGptConfig
from engines.families.networks import build_empty, parameter_shapes, put_parameter
from small_models import small_vision

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads peak memory from /proc")

SHARD_BYTES = 80_000_000
SLACK_BYTES = 40_000_000
BUNDLED = Path(__file__).parents[2] / "assets" / "models" / "evprof-tiny-eventgpt" / "tokenizer.model"

MEASURE = """
import json, sys, threading
from pathlib import Path
from engines.loading.weights import load_model
from evprof.core.request import ModelChoice

def load(name, dtype):
    return load_model(ModelChoice(name, device="cpu", dtype=dtype), "draft", lambda *_: None, threading.Event())

def line(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(each.split()[1]) * 1024 for each in lines if each.startswith(name))

load("evprof-tiny-eventgpt", "float32")
before = line("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
model = load(sys.argv[1], sys.argv[2])
after = line("VmRSS")
weights = sum(each.nbytes for part in (model.network, model.language_model) for each in part.parameters())
largest = max(each.nbytes for each in model.language_model.parameters())
print(json.dumps({"grown": line("VmHWM") - before, "kept": after - before, "weights": weights, "largest": largest}))
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """265 MB in bfloat16, the language model's share; its largest tensor is a quarter of it."""
    vision = small_vision(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=28)
    text = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=8,
    )
    network = build_empty(EventGptConfig(vision, text))
    for name, shape in parameter_shapes(network).items():
        put_parameter(network, name, torch.full(shape, 0.01, dtype=torch.bfloat16))
    folder = tmp_path_factory.mktemp("large") / "m"
    write_eventgpt(folder, network, BUNDLED.read_bytes(), shard_bytes=SHARD_BYTES)  # type: ignore[arg-type]  # an EventGPT
    return folder


def measured(folder: Path, dtype: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), dtype],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_safetensors_are_read_without_a_second_copy(dtype: str, checkpoint: Path) -> None:
    found = measured(checkpoint, dtype)
    assert found["weights"] > 260_000_000
    # One tensor more: as it is stored beside as it is asked, or two projections beside the fused one.
    assert found["grown"] < found["weights"] + found["largest"] + SLACK_BYTES, found
    assert found["kept"] > 0.95 * found["weights"]


def test_old_bin_files_take_one_shard_more(checkpoint: Path) -> None:
    """They are mapped, so pages of the shard being read may be there, too; the system takes them back when it likes."""
    shards = sorted(checkpoint.glob("model-*.safetensors"))
    for path in shards:
        torch.save(load_file(path), checkpoint / f"pytorch_{path.stem}.bin")
        path.unlink()
    (checkpoint / "model.safetensors.index.json").unlink()
    found = measured(checkpoint, "bfloat16")
    assert len(shards) >= 4
    assert found["grown"] < found["weights"] + found["largest"] + SHARD_BYTES + SLACK_BYTES, found
