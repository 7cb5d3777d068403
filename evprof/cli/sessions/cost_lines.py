"""What tokens cost, for people to read in a terminal: caches by origin, frames, and how stages grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, ms_text, number_text, percent_text
from evprof.metrics.costs.cache_map import HELD_ORIGINS, cache_map, reason_without
from evprof.metrics.costs.sweeps import Ribbon, RoofShare, ribbons_of, roof_of
from evprof.metrics.costs.visual_costs import TokenCost, visual_costs
from evprof.metrics.limits.sizes import read_ceilings, read_models, sizes_of


def print_costs(runs: Sequence[RunLog], facts: Mapping[str, Any], console: Console) -> None:
    """Every model of every run that got as far as its prefill, then the sweeps of all runs."""
    noted, ceilings = read_models([facts.get("models")]), read_ceilings([facts.get("ceilings")])
    for run in runs:
        for role, model in run.info.models.items():
            console.print(f"run {run.run_id} · {model.name} ({role})")
            for line in _cache_lines(run, role):
                console.print(f"  {line}")
            rows = list(_frame_rows(run, role, noted))
            if rows:
                console.table(rows)
            if role == run.info.role and (roof := _roof_text(roof_of([run], noted, ceilings))):
                console.print(f"  {'of the ceilings':<22}{roof}")
            console.print()
    ribbons = ribbons_of(runs, noted, ceilings)
    for ribbon in ribbons:
        for line in _ribbon_lines(ribbon):
            console.print(line)
        console.print()
    if not ribbons:
        console.print(
            "No runs of one model differ only in frames or in the length of their clip: no growth to tell of."
        )


def _cache_lines(run: RunLog, role: str) -> Iterator[str]:
    held = cache_map(run, role)
    if held is None:
        yield reason_without(run, role)
        return
    parts = [f"{origin} {bytes_text(held.bytes_of(origin))}" for origin in HELD_ORIGINS if held.bytes_of(origin)]
    yield f"{'KV cache':<22}{held.length:,} positions in {held.layers} layers: {', '.join(parts)}"
    measured = "not measured" if held.measured_bytes is None else bytes_text(held.measured_bytes)
    yield f"{'':<22}{bytes_text(held.held_bytes)} by formula, measured {measured}"
    unused, rolled_back = bytes_text(held.reserved_bytes), bytes_text(held.rolled_back_bytes)
    yield f"{'':<22}set aside and empty {unused}, rolled back {rolled_back}"


def _frame_rows(run: RunLog, role: str, noted: dict[str, Any]) -> Iterator[list[str]]:
    costs = visual_costs(run, role, sizes_of(run.info.models.get(role), noted))
    if costs is None:
        return
    yield ["  shares of", "tokens", "KV cache", "vision", "prefill", "decode"]
    if len(costs.frames) > 1 == len({frame.cost for frame in costs.frames}):
        yield _cost_row(f"  each of {len(costs.frames):,} frames", costs.frames[0].cost)
    else:
        for frame in costs.frames:
            yield _cost_row(f"  frame {frame.frame + 1}", frame.cost)
    if costs.shared.tokens:
        yield _cost_row("  shared by all", costs.shared)
    yield _cost_row("  all visual tokens", costs.whole)


def _cost_row(name: str, cost: TokenCost) -> list[str]:
    times = (cost.vision_ms, cost.prefill_ms, cost.decode_ms)
    return [name, f"{cost.tokens:,}", bytes_text(cost.kv_bytes), *map(ms_text, times)]


def _ribbon_lines(ribbon: Ribbon) -> Iterator[str]:
    axis = ribbon.sweep.axis
    yield f"{ribbon.sweep.name} over {axis.plural}: {ribbon.run_count:,} runs"
    for point in ribbon.points:
        known = ", ".join(f"{stage} {ms_text(found.value)}" for stage, found in point.stages.items())
        yield f"  {number_text(point.place):<18}{known}"
        if roof := _roof_text(point.roof):
            yield f"  {'':<18}{roof}"
    for slope in ribbon.slopes:
        yield f"  {slope.stage:<18}{slope.sentence}"


def _roof_text(roof: Sequence[RoofShare]) -> str:
    """`MFU of vision 45 %, …`; empty where no ceiling was measured."""
    return ", ".join(
        f"{share.figure} of {share.stage} {percent_text(share.share)}" for share in roof if share.share is not None
    )
