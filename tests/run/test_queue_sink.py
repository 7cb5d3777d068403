"""The queue between engine and sender: order, urgency, and pieces of bearable size."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunWarned
from evprof.core.records import BEGIN, TARGET, KvRecord, SpanRecord, TokenRecord
from evprof.run.processes.channel import LARGEST_BATCH, QueueSink


def kv(serial: int) -> KvRecord:
    return KvRecord(1, TARGET, serial, serial, serial)


def token(serial: int) -> TokenRecord:
    return TokenRecord(1, TARGET, serial, 5, "target", -1, serial, "a")


def row_count(parts: Sequence[Any]) -> int:
    return sum(len(rows) for _, rows in parts)


@given(st.lists(st.sampled_from("ktm"), max_size=60))
def test_order_is_kept_within_streams_and_around_messages(kinds):
    sink = QueueSink()
    for serial, kind in enumerate(kinds):
        if kind == "m":
            sink.post(RunWarned(1, str(serial)))
        else:
            sink.append(kv(serial) if kind == "k" else token(serial))
    seen: dict[str, list[int]] = {"k": [], "t": [], "m": []}
    for part in sink.take():
        if isinstance(part, RunWarned):
            # Every row appended before the message is there.
            place = int(part.sentence)
            assert len(seen["k"]) == kinds[:place].count("k")
            assert len(seen["t"]) == kinds[:place].count("t")
            seen["m"].append(place)
        else:
            assert isinstance(part, tuple)
            stream, rows = part
            seen[stream[0]] += [row[2] for row in rows]
    assert seen == {kind: [place for place, each in enumerate(kinds) if each == kind] for kind in "ktm"}
    assert sink.take() == []


def test_what_piled_up_comes_in_pieces():
    sink = QueueSink()
    for serial in range(2 * LARGEST_BATCH + 1):
        sink.append(kv(serial))
    sizes = [row_count(sink.take()) for _ in range(4)]
    assert sizes == [LARGEST_BATCH, LARGEST_BATCH, 1, 0]


def waiting(sink: QueueSink) -> threading.Thread:
    """A thread that ends when the sink rings."""
    thread = threading.Thread(target=sink.wait, args=(None,), daemon=True)
    thread.start()
    return thread


def test_stages_and_messages_are_urgent_other_records_are_not():
    sink = QueueSink()
    sink.append(kv(1))
    sink.append(SpanRecord(1, 7, 3, BEGIN, TARGET, "tower", 0, -1))
    for urgent in (
        lambda: sink.append(SpanRecord(1, 8, -1, BEGIN, TARGET, "vision", 0, -1)),
        lambda: sink.post(RunWarned(1, "now")),
    ):
        reader = waiting(sink)
        reader.join(0.05)
        assert reader.is_alive()
        urgent()
        reader.join()
        sink.take()
        sink.append(kv(2))
