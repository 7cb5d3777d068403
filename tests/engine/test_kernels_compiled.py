"""The fused step's kernels as the compiler makes them for sm80 and sm90, and what they move: no GPU is needed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import recorded_launches
import step_traffic
from engines.kernels.elementwise import quantize_rows
from recorded_launches import Launch

GRANTED = 99 * 1024
"""Bytes of shared memory that a GeForce grants one program; other GPUs grant more."""

LATENCY_S = 800e-9
"""Of device memory under load, generously."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))


def step(tokens: int = 1, **shape: Any) -> list[Launch]:
    return step_traffic.launches_of(step_traffic.vicuna(**shape), tokens=tokens)


def asked_at_once(launch: Launch, resident: int) -> int:
    """Bytes of weights, or of keys and values, that one multiprocessor has under way."""
    tensors, given = launch.tensors, launch.arguments
    on_one = min(resident, -(-launch.programs // 132))
    if "weight" in tensors:
        tile = given["BLOCK_ROWS"] * given["BLOCK_COLUMNS"] * tensors["weight"].itemsize * (2 if given["GATED"] else 1)
        return on_one * (given["STAGES"] - 1) * tile
    tile = 2 * given["block_keys"] * given["width"] * tensors["keys"].itemsize
    return on_one * (launch.options["num_stages"] - 1) * tile


@pytest.mark.parametrize(
    ("tokens", "capability", "shape"),
    [
        (1, 90, {}),
        *(
            pytest.param(*case, marks=pytest.mark.whole)
            for case in (
                (16, 90, {"kv_heads": 8}),
                (1, 90, {"quant": "int4"}),
                (1, 90, {"quant": "int8"}),
                (5, 80, {"dtype": torch.float16}),
                (2, 90, {"quant": "int4"}),
                (1, 90, {"quant": "fp8"}),
                (16, 90, {"quant": "fp8"}),
            )
        ),
    ],
    ids=str,
)
def test_every_kernel_of_a_step(tokens: int, capability: int, shape: dict[str, Any]) -> None:
    """Nothing spills; weights come in loads of 16 bytes that do not wait for one another, enough of them to hide the
    latency of memory; several tokens are multiplied by tensor cores."""
    launches = step(tokens, **shape)
    assert len(launches) == 7 + 1
    # Attention is the same whatever the weights are kept in, and the head never is in fewer bits.
    for launch in launches[:1] + launches[4:7] if "quant" in shape else launches:
        made = recorded_launches.compiled(launch, capability)
        names = set(made.instructions)
        assert made.spilled == 0
        assert made.shared <= GRANTED or "weight" not in launch.tensors
        assert not {name for name in names if name.startswith(("LDL", "STL"))}
        if launch.name in ("one_token", "several_tokens", "_attend_to_shares"):
            assert "LDGSTS.E.BYPASS.128" in names
            assert any(name.startswith(("HMMA", "HGMMA")) for name in names) == (launch.name != "one_token")
            resident = made.resident(launch.options["num_warps"])
            # The small products of several tokens in four bits have enough for an H100.
            rate = step_traffic.H100 if launch.arguments.get("BITS") == 4 and tokens > 1 else step_traffic.H200
            assert asked_at_once(launch, resident) > rate * LATENCY_S / 132


def test_every_kernel_of_a_prefill() -> None:
    """Compiled once for all lengths; nothing spills, and memory is read and written 16 bytes at a time."""
    launches = step_traffic.prefill_launches(640)
    assert [launch.name for launch in launches] == ["_rotate_and_write", "_add_norm", "_silu_product", "_add_norm"]
    keys = {recorded_launches.compile_key(launch) for launch in launches}
    for length in (17, 4643):
        assert keys == {recorded_launches.compile_key(launch) for launch in step_traffic.prefill_launches(length)}
    for launch in launches[:3]:
        made = recorded_launches.compiled(launch, 90)
        assert made.spilled == 0
        loads = [name for name in made.instructions if name.startswith("LDG")]
        stores = [name for name in made.instructions if name.startswith("STG")]
        print(launch.name, launch.grid, made.registers, sorted(set(loads)), sorted(set(stores)))
        assert all("128" in name for name in stores)


def test_a_layer_has_the_launches_that_the_page_of_the_decode_step_states() -> None:
    counts = [
        step_traffic.operations_of_a_layer(1),
        step_traffic.operations_of_a_layer(640),
        step_traffic.operations_of_a_layer(640, is_fused=True),
    ]
    assert [sum(operations.values()) for operations in counts] == [17, 17, 9]


@pytest.mark.parametrize("capability", [89, 90])
def test_rows_become_floats_of_eight_bits_in_one_launch(capability: int) -> None:
    with recorded_launches.recorded() as launches:
        quantize_rows(torch.empty(640, 11008, dtype=torch.bfloat16, device="meta"))
    (made,) = [recorded_launches.compiled(launch, capability) for launch in launches]
    assert made.spilled == 0
    assert {"LDG.E.128", "STG.E.128"} <= set(made.instructions)
    assert any("E4M3" in name for name in made.instructions)
