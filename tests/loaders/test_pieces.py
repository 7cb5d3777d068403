"""Windows through an index of pieces give what looking at everything gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.events import EventArray
from evprof.loaders.events.pieces import PiecedRecording, Pieces, sampled
from evprof.loaders.events.recording import FileBytes, RecordingInfo, joined
from made_events import same


def made(times: list[int]) -> EventArray:
    count = len(times)
    numbers = np.arange(count)
    return EventArray.from_columns(numbers % 16_000, numbers // 16_000, np.array(times, np.int64), np.zeros(count))


class Packets(PiecedRecording):
    """Packets in memory that note which of them were decoded."""

    def __init__(self, path: Path, packets: list[EventArray], *, is_counted: bool) -> None:
        self._file, self.path = FileBytes(path), str(path)
        self._file.close()
        self._is_counted = is_counted
        self._all = packets
        self.decoded: set[int] = set()

    @property
    def info(self) -> RecordingInfo:
        return RecordingInfo("packets", None, None, None, *self._limits_us())

    @property
    def bytes_read(self) -> int:
        return 0

    def chunks(self) -> Iterator[EventArray]:
        return (packet for packet in self._all if len(packet))

    def close(self) -> None:
        pass

    @property
    def _pieces(self) -> Pieces:
        if not self._is_counted:
            firsts = [int(packet.t_us[0]) if len(packet) else None for packet in self._all]
            return sampled(len(self._all), lambda number: firsts[number])
        numbers = [number for number, packet in enumerate(self._all) if len(packet)]
        counts = np.array([len(self._all[number]) for number in numbers], np.int64)
        first_us = np.array([self._all[number].t_us[0] for number in numbers], np.int64)
        return Pieces(first_us, counts, np.array([*numbers, len(self._all)]))

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._pieces.edges
        self.decoded |= set(range(edges[start], edges[stop]))
        return joined(self._all[edges[start] : edges[stop]])


@given(
    gaps=st.lists(st.integers(0, 9), min_size=1, max_size=120),
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=60),
    swaps=st.sets(st.integers(0, 59), max_size=6),
    window=st.tuples(st.integers(-5, 400), st.integers(-5, 400)),
    is_counted=st.booleans(),
)
def test_windows(gaps: list[int], sizes: list[int], swaps: set[int], window: tuple[int, int], is_counted: bool) -> None:
    times = np.cumsum(gaps).tolist()
    for place in swaps:
        # Neighbours out of order, as read-out of a sensor's rows makes them.
        if 2 * place + 1 < len(times):
            times[2 * place : 2 * place + 2] = reversed(times[2 * place : 2 * place + 2])
    whole = made(times)
    packets: list[EventArray] = []
    place = 0
    while place < len(whole):
        size = sizes[len(packets) % len(sizes)] if any(sizes) else 5
        packets.append(whole.slice_count(place, place + size))
        place += size
    recording = Packets(Path(__file__), packets, is_counted=is_counted)
    assert same(recording.read(), whole)
    assert same(recording.read_time(*window), whole.slice_time(*window))
    if recording._pieces.is_sorted and not swaps:
        assert (recording.info.t_min_us, recording.info.t_max_us) == (whole.t_min_us, whole.t_max_us)


def test_only_what_a_window_needs_is_decoded() -> None:
    packets = [made(list(range(number * 10, number * 10 + 10))) for number in range(1_000)]
    for is_counted, most in ((True, 4), (False, 130)):
        recording = Packets(Path(__file__), packets, is_counted=is_counted)
        assert recording.read_time(5_000, 5_010).t_us.tolist() == list(range(5_000, 5_010))
        assert 500 in recording.decoded
        assert len(recording.decoded) <= most


def test_whole_packets_out_of_order() -> None:
    packets = [made([50, 60]), made([10, 20]), made([55, 15])]
    recording = Packets(Path(__file__), packets, is_counted=True)
    assert recording.read_time(15, 56).t_us.tolist() == [50, 20, 55, 15]
    assert (recording.info.t_min_us, recording.info.t_max_us) == (None, None)
