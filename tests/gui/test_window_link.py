"""Windows that are linked share pointer and zoom; what strangers say changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtNetwork import QLocalSocket
from PySide6.QtWidgets import QApplication

from evprof.view.link_message import LinkMessage
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.link.window_link import WindowLink
from ui.timeline.scene import GUTTER_PX
from ui.timeline.timeline_view import TimelineView

Wait = Callable[..., None]


@pytest.fixture
def name() -> str:
    return f"evprof-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def views(application: QApplication, controller: RunController, themes: ThemeHolder) -> Iterator[list[TimelineView]]:
    made = []
    for _ in range(3):
        view = TimelineView(controller, Selection(application), themes)
        view.resize(900, 400)
        view.show()
        view.selection.set_runs(1, 2)
        made.append(view)
    application.processEvents()
    yield made
    for view in made:
        view.close()
        view.deleteLater()


@pytest.fixture
def links(views: list[TimelineView], name: str, wait_until: Wait) -> Iterator[list[WindowLink]]:
    made = []
    for view in views:
        made.append(WindowLink(view, name))
        wait_until(lambda: made[-1].is_joined)
    yield made
    for link in made:
        link.close()


def test_the_first_window_is_the_hub(links: list[WindowLink]) -> None:
    assert [link.is_hub for link in links] == [True, False, False]


@pytest.mark.parametrize("speaker", [0, 1])
def test_pointer_and_zoom_reach_every_other_window(
    links: list[WindowLink], views: list[TimelineView], wait_until: Wait, speaker: int
) -> None:
    assert len(links) == 3
    others = [view for place, view in enumerate(views) if place != speaker]
    said = views[speaker]
    said.zoom(3.0, 200.0)
    said.stack.point_at(QPointF(GUTTER_PX + 150, 20))
    wait_until(lambda: all(view.scene.linked_ns == said.pointer_ns for view in others))
    assert said.pointer_ns is not None
    assert all(view.selection.view_range == said.selection.view_range for view in others)
    assert said.scene.linked_ns is None
    said.fit()
    wait_until(lambda: all(view.selection.view_range is None for view in others))


def test_another_window_takes_the_place_of_the_hub(
    links: list[WindowLink], views: list[TimelineView], wait_until: Wait
) -> None:
    links.pop(0).close()
    wait_until(lambda: sum(link.is_hub for link in links) == 1 and all(link.is_joined for link in links))
    views[2].zoom(2.0, 100.0)
    wait_until(lambda: views[1].selection.view_range == views[2].selection.view_range)
    assert views[0].selection.view_range is None


def test_a_stranger_breaks_nothing(
    links: list[WindowLink], views: list[TimelineView], name: str, wait_until: Wait
) -> None:
    stranger = QLocalSocket()
    stranger.connectToServer(name)
    wait_until(lambda: stranger.state() == stranger.LocalSocketState.ConnectedState)
    before = [view.selection.view_range for view in views]
    for words in (b"\n", b"{}\n", b'{"v":1,"cursor":"x","view":[2,1]}\n', b"\xff\x00\n", b"[" * 200 + b"\n"):
        stranger.write(words)
    stranger.write(LinkMessage(5, None).encoded())
    wait_until(lambda: all(view.scene.linked_ns == 5 for view in views))
    assert [view.selection.view_range for view in views] == before
    stranger.write(b"x" * 100_000)
    wait_until(lambda: stranger.state() == stranger.LocalSocketState.UnconnectedState)
    assert links[0].is_hub
    stranger.deleteLater()
