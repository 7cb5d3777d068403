"""Which tiling of a product is fastest on this device: measured once in setup, before anything is captured.

A candidate runs over one layer's weights after the other as a CUDA graph, as it will run: launched one by one the
host would be measured, and over one matrix alone the cache. What was found is kept for the process, and in the user's
cache folder by device and version of Triton.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from engines.kernels.packed_weight import PackedWeight, Product, Tiling, default_tiling
from engines.kernels.projections import Weight, chosen_tilings, launch, product_of
from evprof.core.files.user_folders import cache_folder

Measure = Callable[[Callable[[], object], torch.device], float]
"""Ms of a call on a device."""

_READ_BYTES = 512 << 20
"""Of weights read by one timing, ten times the largest cache of level two."""

_REPLAYS = 5
_FILE = "tilings.json"


def tune(
    weights: Sequence[Weight],
    tokens: int,
    dtype: torch.dtype,
    *,
    is_gated: bool = False,
    is_normed: bool = True,
    measure: Measure | None = None,
) -> Tiling:
    """Finds and keeps the tiling of a product whose weights are given layer by layer, all of one shape.

    Waits for the device unless the tiling is known. Candidates that the device has no room for are passed over.
    """
    first = weights[0]
    device = (first.data if isinstance(first, PackedWeight) else first).device
    product = product_of(tokens, first, dtype, is_gated=is_gated)
    key = (device, product)
    if key not in chosen_tilings:
        known = _read(device)
        if _name(product) not in known:
            run = _layers(weights, product, dtype, device, is_normed=is_normed)
            known[_name(product)] = _fastest(run, candidates(product), device, measure or graph_ms)
            _write(device, known)
        chosen_tilings[key] = known[_name(product)]
    return chosen_tilings[key]


def candidates(product: Product) -> list[Tiling]:
    """What is worth measuring: the default first; then shorter and longer, fewer and more tiles, and more warps.

    Few, because each is compiled: about a second. Too large ones do not launch, and are passed over.
    """
    first = default_tiling(product)
    rows, columns = first.rows, first.columns
    if product.tokens == 1:
        tried = [
            first,
            dataclasses.replace(first, rows=max(1, rows // 2)),
            dataclasses.replace(first, rows=max(1, rows // 2), columns=2 * columns),
            dataclasses.replace(first, rows=2 * rows, columns=max(64, columns // 2)),
            dataclasses.replace(first, stages=6),
            dataclasses.replace(first, rows=2 * rows, warps=8, stages=3),
        ]
    else:
        tried = [
            first,
            dataclasses.replace(first, stages=first.stages - 1),
            dataclasses.replace(first, rows=max(16, rows // 2), warps=2, columns=2 * columns),
            dataclasses.replace(first, rows=2 * rows, stages=3),
        ]
    return list(dict.fromkeys(tried))


def _layers(
    weights: Sequence[Weight], product: Product, dtype: torch.dtype, device: torch.device, *, is_normed: bool
) -> Callable[[Tiling], None]:
    """One launch for each of the weights, as often as it takes to read enough."""
    read = sum(weight.nbytes for weight in weights)
    rounds = max(1, -(-_READ_BYTES // read)) if device.type == "cuda" else 1
    inputs = torch.randn(product.tokens, product.columns, device=device).to(dtype)
    norm = torch.ones(product.columns, device=device, dtype=dtype) if is_normed else None
    out = torch.zeros(product.tokens, product.rows, device=device, dtype=dtype)
    residual = None if is_normed else out

    def run(tiling: Tiling) -> None:
        for _ in range(rounds):
            for weight in weights:
                launch(
                    inputs,
                    weight,
                    norm=norm,
                    eps=1e-5,
                    residual=residual,
                    is_gated=product.gated,
                    out=out,
                    tiling=tiling,
                )

    return run


def _fastest(run: Callable[[Tiling], None], tried: Sequence[Tiling], device: torch.device, measure: Measure) -> Tiling:
    from triton.runtime.errors import OutOfResources

    best, least = tried[0], float("inf")
    for tiling in tried:
        try:
            spent = measure(partial(run, tiling), device)
        except OutOfResources:
            continue
        if spent < least:
            best, least = tiling, spent
    return best


@torch.inference_mode()
def graph_ms(call: Callable[[], object], device: torch.device) -> float:
    """Ms of a call as a CUDA graph, the middle of some replays. It may set nothing aside."""
    with torch.cuda.device(device):
        side, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            call()
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            call()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(_REPLAYS + 2)]
        for mark in marks[:-1]:
            mark.record()
            graph.replay()
        marks[-1].record()
        marks[-1].synchronize()
        # The first replay also brings the graph to the device.
        return float(statistics.median(first.elapsed_time(last) for first, last in pairwise(marks[1:])))


def _name(product: Product) -> str:
    return " ".join(str(value) for value in dataclasses.astuple(product))


def _machine(device: torch.device) -> str:
    import triton

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"{name}, Triton {triton.__version__}"


def _read(device: torch.device) -> dict[str, Tiling]:
    """What was measured earlier with this device and Triton; nothing of a file that is not as we write it."""
    try:
        kept = json.loads((cache_folder() / _FILE).read_text(encoding="utf-8"))[_machine(device)]
        return {str(name): tiling for name, words in kept.items() if (tiling := _tiling(words)) is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _tiling(words: Any) -> Tiling | None:
    if not (isinstance(words, list) and len(words) == 4 and all(type(word) is int for word in words)):
        return None
    rows, columns, warps, stages = words
    is_possible = all(1 <= word <= 4096 and word & (word - 1) == 0 for word in (rows, columns))
    return Tiling(*words) if is_possible and warps in (1, 2, 4, 8) and 1 <= stages <= 8 else None


def _write(device: torch.device, known: dict[str, Tiling]) -> None:
    """Beside what other devices found. Where it cannot be written, it is measured again next time."""
    path = cache_folder() / _FILE
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        kept = {}
    kept = kept if isinstance(kept, dict) else {}
    kept[_machine(device)] = {name: list(dataclasses.astuple(tiling)) for name, tiling in known.items()}
    draft = path.with_suffix(".writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        draft.replace(path)
    except OSError:
        return
