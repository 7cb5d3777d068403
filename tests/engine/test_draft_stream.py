"""The stream of a draft beside its target: what it waits for and how it is made, on streams that only keep a list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from engines.modes import concurrency
from engines.modes.concurrency import STREAMS, Concurrency

GPU = torch.device("cuda:0")


class Event:
    """Stands for the work that its stream held when it was recorded."""

    def __init__(self) -> None:
        self.covers: list[str] = []

    def record(self, stream: Stream) -> None:
        self.covers = list(stream.queued)


class Stream:
    """`queued` is its work; `awaited` what of other streams has to be done before it goes on."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority
        self.queued: list[str] = []
        self.awaited: list[str] = []

    def wait_event(self, event: Event) -> None:
        self.awaited += event.covers

    def wait_stream(self, other: Stream) -> None:
        self.awaited += other.queued


@pytest.fixture
def default(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    made = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device=None: made)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: made)
    monkeypatch.setattr(concurrency, "make_timers", lambda devices, pools: {})
    concurrency._stream_of.cache_clear()
    yield made
    concurrency._stream_of.cache_clear()


def test_a_draft_waits_for_setup_and_not_for_the_targets_prefill(default: Stream) -> None:
    both = Concurrency(GPU, GPU, {})
    assert both.kind == STREAMS
    default.queued.append("weights and captures")
    both.note_ready()
    default.queued.append("the target's prefill")
    with both.draft_side():
        pass
    stream: Any = concurrency._stream_of(str(GPU))
    assert stream.awaited == ["weights and captures"]


def test_what_follows_drafting_waits_for_all_of_it(default: Stream) -> None:
    both = Concurrency(GPU, GPU, {})
    stream: Any = concurrency._stream_of(str(GPU))
    stream.queued.append("drafts")
    both.join_streams()
    assert default.awaited == ["drafts"]
