"""The products of the fused step on a GPU: right at the shapes of 7B models, captured, tuned. Else skipped."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from engines.decoder.compiled_step import compiled
from engines.decoder.quantization import PackedLinear
from engines.kernels.packed_weight import FLOAT8, FULL, INT4, INT8, PackedWeight
from engines.kernels.projections import norm_gate_up, norm_project, project_add

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.usefixtures("without_gradients"),
    # What torch says of the mode itself.
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature:UserWarning"),
]

EPS = 1e-5
KINDS = [FULL, INT8, INT4]
if torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9):
    KINDS.append(FLOAT8)
LARGEST = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""‖found − wanted‖ / ‖wanted‖, as many roundings of the dtype as there are."""

QKV, GQA, OUT, GATE_UP, DOWN, HEAD = (
    (12288, 4096),
    (6144, 4096),
    (4096, 4096),
    (22016, 4096),
    (4096, 11008),
    (32000, 4096),
)


class Case:
    """One product on the device, with what it is in float64 or, where that is slow, float32."""

    def __init__(self, rows: int, columns: int, tokens: int, dtype: torch.dtype, *, bits: int = FULL) -> None:
        torch.manual_seed(rows + columns + tokens)
        place: Any = {"device": "cuda"}
        self.inputs = torch.randn(tokens, columns, **place).to(dtype)
        self.norm = (0.5 + torch.rand(columns, **place)).to(dtype)
        self.residual = torch.randn(tokens, rows, **place).to(dtype)
        full = (columns**-0.5 * torch.randn(rows, columns, **place)).to(dtype)
        self.weight: Any = full if bits == FULL else PackedWeight.of(full, bits)
        self.exact = (full if bits == FULL else self.weight.unpacked(torch.float32)).double()

    def normed(self) -> torch.Tensor:
        return F.rms_norm(self.inputs.double(), self.inputs.shape[1:], self.norm.double(), EPS) @ self.exact.T

    def wanted(self, name: str) -> torch.Tensor:
        if name == "project_add":
            return self.inputs.double() @ self.exact.T + self.residual
        if name == "norm_project":
            return self.normed()
        gate, up = self.normed().chunk(2, 1)
        return F.silu(gate) * up

    def found(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        if name == "project_add":
            return project_add(self.inputs, self.weight, self.residual, out=out)
        call = norm_project if name == "norm_project" else norm_gate_up
        return call(self.inputs, self.norm, self.weight, EPS, out=out)


def distance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize("dtype", list(LARGEST), ids=str)
@pytest.mark.parametrize("tokens", [1, 2, 7, 16])
def test_products_of_7b_shapes(tokens: int, dtype: torch.dtype, bits: int) -> None:
    for name, shapes in (
        ("norm_project", (QKV, GQA, HEAD)),
        ("project_add", (OUT, DOWN)),
        ("norm_gate_up", (GATE_UP,)),
    ):
        for rows, columns in shapes:
            case = Case(rows, columns, tokens, dtype, bits=bits)
            far = distance(case.found(name), case.wanted(name))
            assert far < LARGEST[dtype], (name, rows, columns, far)


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize(("rows", "columns"), [(33, 65), (7, 200), (130, 1100)])
def test_odd_shapes(rows: int, columns: int, bits: int) -> None:
    for tokens in (1, 3):
        case = Case(rows, columns, tokens, torch.bfloat16, bits=bits)
        for name in ("norm_project", "project_add"):
            assert distance(case.found(name), case.wanted(name)) < LARGEST[torch.bfloat16]


@pytest.mark.parametrize("bits", KINDS)
@pytest.mark.parametrize("tokens", [1, 5])
def test_captured_it_neither_waits_nor_sets_anything_aside(tokens: int, bits: int) -> None:
    case = Case(*GATE_UP, tokens, torch.bfloat16, bits=bits)
    out = torch.full((tokens, GATE_UP[0] // 2), torch.nan, device="cuda", dtype=torch.bfloat16)
    case.found("norm_gate_up", out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        case.found("norm_gate_up", out)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_allocated() == before
    launched = out.clone()
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        case.found("norm_gate_up", out)
    out.fill_(torch.nan)
    graph.replay()
    assert torch.equal(out, launched)


@pytest.mark.parametrize("bits", KINDS[1:])
@pytest.mark.parametrize("rows", [1, 16, 17])
def test_packed_linears_eager_and_compiled(rows: int, bits: int) -> None:
    linear = nn.Linear(1408, 512, bias=True, dtype=torch.bfloat16).requires_grad_(False)
    packed = PackedLinear.of(linear, bits, torch.device("cuda"))
    inputs = torch.randn(1, rows, 1408, device="cuda", dtype=torch.bfloat16)
    wanted = F.linear(inputs.double(), packed.packed.unpacked(torch.float32).double(), packed.bias.double())

    def multiply(states: torch.Tensor) -> Any:
        return packed(states)

    # As the compiled step does. A backend chosen by its name would import all backends that are installed.
    for call in (multiply, compiled(multiply)):
        assert distance(call(inputs), wanted) < 2 * LARGEST[torch.bfloat16]
