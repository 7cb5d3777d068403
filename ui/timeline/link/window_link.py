"""Links the timelines of this user's evprof windows: pointer and zoom of one are shown in all others.

The first linked window listens at a local socket, the others connect to it, and it passes on what each says. When it
goes, one of the others takes its place. Only this user's programs may connect, and what comes is checked all the same.
"""

from __future__ import annotations

import getpass
import random

from PySide6.QtCore import QDir, QLockFile, QObject, QTimer
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from evprof.view.link_message import MOST_BYTES, LinkMessage, link_message
from ui.timeline.timeline_view import TimelineView
from ui.widgets.pace import Pace

MOST_WINDOWS = 16
INTERVAL_MS = 33
_WAITS_MS = 50, 250


class WindowLink(QObject):
    """One window's end of the link, from its making to `close`."""

    def __init__(self, timeline: TimelineView, name: str = "") -> None:
        """`name` of the socket: this user's, unless told otherwise."""
        super().__init__(timeline)
        self._timeline = timeline
        self._name = name or f"evprof-link-{getpass.getuser()}"
        self._lock = QLockFile(QDir.temp().filePath(f"{self._name}.lock"))
        self._server: QLocalServer | None = None
        self._peers: list[QLocalSocket] = []
        self._told: LinkMessage | None = None
        self._is_closed = False
        self._pace = Pace(INTERVAL_MS, self._tell, self, answers=True)
        timeline.stack.pointer_moved.connect(self._pace.follow)
        timeline.selection.view_range_changed.connect(self._pace.follow)
        self._join()

    @property
    def is_hub(self) -> bool:
        """Whether the others are connected to this window."""
        return self._server is not None

    @property
    def is_joined(self) -> bool:
        """Whether it listens, or is connected to the window that does."""
        return self.is_hub or any(peer.state() == peer.LocalSocketState.ConnectedState for peer in self._peers)

    def close(self) -> None:
        """Ends the link; the other windows go on without."""
        self._is_closed = True
        self._timeline.stack.pointer_moved.disconnect(self._pace.follow)
        self._timeline.selection.view_range_changed.disconnect(self._pace.follow)
        self._timeline.stack.overlay.show_linked(None)
        for peer in list(self._peers):
            peer.abort()
        if self._server is not None:
            self._server.close()
            self._lock.unlock()
        self.deleteLater()

    # Finding each other.

    def _join(self) -> None:
        if self._is_closed:
            return
        socket = QLocalSocket(self)
        socket.connected.connect(lambda: self._greet(socket))
        socket.errorOccurred.connect(lambda _: self._listen(socket))
        socket.connectToServer(self._name)

    def _listen(self, socket: QLocalSocket) -> None:
        """Nobody answers: this window becomes the hub."""
        if self._is_closed or self.is_hub or socket in self._peers:
            return
        socket.deleteLater()
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        # Of windows that find nobody at the same time one gets the lock, and with it the right to clear away what a
        # program left that ended badly: without it they would clear each other away.
        if not (self._lock.tryLock(0) and QLocalServer.removeServer(self._name) and server.listen(self._name)):
            self._lock.unlock()
            server.deleteLater()
            self._join_later()
            return
        server.newConnection.connect(self._take_in)
        self._server = server

    def _join_later(self) -> None:
        QTimer.singleShot(random.randint(*_WAITS_MS), self, self._join)

    def _take_in(self) -> None:
        while self._server is not None and (socket := self._server.nextPendingConnection()) is not None:
            if len(self._peers) >= MOST_WINDOWS:
                socket.abort()
                socket.deleteLater()
            else:
                self._greet(socket)

    def _greet(self, socket: QLocalSocket) -> None:
        socket.setReadBufferSize(16 * MOST_BYTES)
        self._peers.append(socket)
        socket.readyRead.connect(lambda: self._read(socket))
        socket.disconnected.connect(lambda: self._lose(socket))
        if self.is_hub and self._told is not None:
            # It was said before this window was there.
            self._send(self._told, [socket])
        self._read(socket)

    def _lose(self, socket: QLocalSocket) -> None:
        if socket not in self._peers:
            return
        self._peers.remove(socket)
        socket.deleteLater()
        self._timeline.stack.overlay.show_linked(None)
        if not self.is_hub and not self._is_closed:
            self._join_later()

    # Telling and hearing.

    def _tell(self) -> None:
        self._pace.begin()
        said = LinkMessage(self._timeline.pointer_ns, self._timeline.selection.view_range)
        if said != self._told:
            self._told = said
            self._send(said, self._peers)

    @staticmethod
    def _send(message: LinkMessage, peers: list[QLocalSocket]) -> None:
        for peer in peers:
            # Who does not read falls behind, and needs no old moments.
            if peer.bytesToWrite() < 16 * MOST_BYTES:
                peer.write(message.encoded())

    def _read(self, socket: QLocalSocket) -> None:
        heard: LinkMessage | None = None
        while socket.canReadLine():
            heard = link_message(bytes(socket.readLine(MOST_BYTES + 1).data())) or heard
        if socket.bytesAvailable() > MOST_BYTES:
            socket.abort()
            return
        if heard is None:
            return
        if self.is_hub:
            self._send(heard, [peer for peer in self._peers if peer is not socket])
        # What is shown now was told by somebody else: it is not told back.
        self._told = LinkMessage(self._timeline.pointer_ns, heard.view_ns)
        self._timeline.selection.set_view_range(heard.view_ns)
        self._timeline.stack.overlay.show_linked(heard.cursor_ns)
