"""Runs as a recording that Rerun's viewer opens: pictures, stages, tokens, rounds, caches and memory on two clocks.

`compute_time` counts from a run's zero; `sensor_time` is the sample's clock. A picture lies on both: when it was
sensed, and when the model began with it. A token lies on the latter at the end of what the model was shown. What was
measured without a clock of its own, such as a cache, lies on the first alone. Rerun's own package writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_path
from evprof.core.installation import how_to_add
from evprof.core.run_log import RunLog
from evprof.core.units import count_text
from evprof.metrics.configurations.settings_text import kind_read
from evprof.metrics.costs.two_clocks import slices_of
from evprof.metrics.figures.decoding import answer_text

if TYPE_CHECKING:
    from evprof.export.report.data import Source

COMPUTE, SENSOR = "compute_time", "sensor_time"

NO_STAGE = "between stages"


def write_rerun(
    sources: Iterable[Source], path: Path, *, many: bool = False, tell: Callable[[str], object] | None = None
) -> list[Path]:
    """Writes one recording of all runs; returns the file. `many`: the runs are below their session's name.

    `tell` is given a sentence for what is left out. Raises OSError, and UserError where rerun-sdk is not installed.
    """
    try:
        import rerun
    except ImportError:
        raise UserError(f"Rerun's recordings need rerun-sdk; {how_to_add('evprof[rerun]')}.") from None
    left_out = 0
    with whole_path(path) as part:
        stream = rerun.RecordingStream("evprof", recording_id=path.name, send_properties=False)
        try:
            stream.save(part)
            for source in sources:
                for run in source.runs:
                    if run.info.start_ns is None:
                        left_out += 1
                        continue
                    place = [*([source.name] if many else []), f"run_{run.run_id}"]
                    _Writer(rerun, stream, place, run, run.info.start_ns).write()
            stream.flush()
        finally:
            stream.disconnect()
    if left_out and tell is not None:
        tell(f"{count_text(left_out, 'run')} that never began left out.")
    return [path]


class _Writer:
    def __init__(self, rerun: Any, stream: Any, place: list[str], run: RunLog, zero_ns: int) -> None:
        self._rerun = rerun
        self._stream = stream
        self._place = place
        self._run = run
        self._zero_ns = zero_ns

    def write(self) -> None:
        run, rerun = self._run, self._rerun
        if text := answer_text(run):
            self._stream.log(self._path("answer"), rerun.TextDocument(text), static=True)
        for role in dict.fromkeys((*run.info.models, *run.frames, *run.kv, *(span.role for span in run.stages()))):
            self._write_frames(role)
            self._write_stages(role)
        self._write_tokens()
        rounds = sorted(run.rounds, key=lambda entry: entry.start_ns)
        for name in ("drafted", "accepted"):
            self._numbers(
                ("rounds", name), [entry.start_ns for entry in rounds], [getattr(one, name) for one in rounds]
            )
        for role, records in run.kv.items():
            self._numbers((role, "kv_cache_bytes"), [one.t_ns for one in records], [one.nbytes for one in records])
        for name, column in (("resident_bytes", "rss_bytes"), ("gpu_bytes", "gpu_bytes")):
            known = [sample for sample in run.memory if getattr(sample, column) >= 0]
            self._numbers(("memory", name), [one.t_ns for one in known], [getattr(one, column) for one in known])

    def _write_frames(self, role: str) -> None:
        run = self._run
        frames, slices = run.frames.get(role, []), slices_of(run, role)
        first = run.stage("preprocess", role) or run.stage("vision", role)
        if not frames:
            return
        clocks = [self._sensed([one.start_us for one in slices])]
        if first is not None:
            clocks.append(self._computed([first.start_ns] * len(frames)))
        image = self._rerun.EncodedImage
        self._send(
            (role, kind_read(run, role) or "frames"),
            clocks,
            image.columns(blob=[frame.png for frame in frames], media_type=["image/png"] * len(frames)),
        )

    def _write_stages(self, role: str) -> None:
        """A stage from its beginning on, and between two of them that there is none."""
        moments: dict[int, str] = {}
        for span in self._run.stages(role):
            moments[span.start_ns] = span.name
            if span.end_ns is not None:
                moments.setdefault(span.end_ns, NO_STAGE)
        if moments:
            times = sorted(moments)
            states = self._rerun.StateChange.columns(state=[moments[at] for at in times])
            self._send((role, "stages"), [self._computed(times)], states)

    def _write_tokens(self) -> None:
        """The words of each role; rejected ones are as loud as warnings."""
        run = self._run
        by_role: dict[str, list[Any]] = {}
        for token in sorted([*run.tokens, *run.rejected], key=lambda token: (token.t_ns, token.position)):
            by_role.setdefault(token.role, []).append(token)
        for role, tokens in by_role.items():
            if run.info.imported is not None:
                continue  # files tell no times of theirs
            clocks = [self._computed([token.t_ns for token in tokens])]
            if slices := slices_of(run, role):
                clocks.append(self._sensed([max(one.stop_us for one in slices)] * len(tokens)))
            levels = ["WARN" if token.origin == "rejected" else "INFO" for token in tokens]
            texts = [f"{token.piece}  ({token.origin})" for token in tokens]
            self._send((role, "tokens"), clocks, self._rerun.TextLog.columns(text=texts, level=levels))

    def _numbers(self, parts: tuple[str, str], times_ns: Sequence[int], values: Sequence[int]) -> None:
        if times_ns:
            self._send(parts, [self._computed(times_ns)], self._rerun.Scalars.columns(scalars=values))

    def _computed(self, times_ns: Sequence[int]) -> Any:
        since = np.array(times_ns, dtype=np.int64) - self._zero_ns
        return self._rerun.TimeColumn(COMPUTE, duration=since.astype("timedelta64[ns]"))

    def _sensed(self, times_us: Sequence[int]) -> Any:
        return self._rerun.TimeColumn(SENSOR, duration=np.array(times_us, dtype="timedelta64[us]"))

    def _send(self, parts: tuple[str, ...], clocks: list[Any], columns: Any) -> None:
        self._stream.send_columns(self._path(*parts), clocks, columns)

    def _path(self, *parts: str) -> str:
        return str(self._rerun.new_entity_path([*self._place, *parts]))
