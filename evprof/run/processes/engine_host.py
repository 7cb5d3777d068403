"""The window's background worker: one plain thread that owns one warm engine process and fills the Recording.

Everything the worker does happens on that one thread, so rows, memory samples and messages keep their order without
locks: when "ended" can be read, every row of that run is there. It knows no window and no session file.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Pipe, wait

from evprof.core.errors import UserError
from evprof.core.protocols import GONE, STARTING, Clock, EngineChanged, Message, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED
from evprof.core.units import NS_PER_S
from evprof.run.meters.samplers import INTERVAL_NS, RunSamplers
from evprof.run.processes.channel import (
    Command,
    InheritedChannel,
    ListeningChannel,
    Part,
    Wire,
    apply_part,
    make_channel,
)
from evprof.run.processes.open_runs import NO_PROGRESS, OpenRuns

START_PATIENCE_S = 300.0
"""What an engine may take to start, whatever the limit: importing a model library from a network disk is slow."""

STOP_PATIENCE_S = 2.0
"""How long an engine may take to answer Stop before its process is ended."""

_RELOADS = "The engine did not answer Stop within 2 s and was ended; the models are loaded again at the next run."
_STARTS_ANEW = "Stopped while the engine was starting; it starts anew at the next run."


class EngineHost:
    """Starts the engine process on the first use, keeps it warm, replaces it when it is gone.

    The methods only leave word for the worker and return at once; what comes of it is read in the Recording.
    """

    def __init__(
        self,
        argv: Sequence[str],
        recording: RecordLog,
        *,
        environment: Mapping[str, str] | None = None,
        clock: Clock = monotonic_ns,
        timeout_s: float | None = None,
    ) -> None:
        """`argv` starts an engine process, such as `[sys.executable, "-m", "evprof", "_engine"]`. `timeout_s`: after so
        long without a word from an engine at work its process is ended and its run has failed.
        """
        self._argv = list(argv)
        self._environment = environment
        self._clock = clock
        self._recording = recording
        self._errands: deque[Callable[[], object] | None] = deque()
        self._bell, self._ringer = Pipe(duplex=False)
        self._is_busy = False
        self._is_closing = False
        self._process: EngineProcess | None = None
        self._samplers: RunSamplers | None = None
        self._open = OpenRuns()
        self._stop_deadline_ns: int | None = None
        self._timeout_s = timeout_s
        self._has_started = False
        self._heard_ns = 0
        self._state = EngineChanged(GONE, "The engine is not running yet.")
        self._worker = threading.Thread(target=self._run, name="evprof-engine-host", daemon=True)
        self._worker.start()

    @property
    def is_busy(self) -> bool:
        return self._is_busy

    @property
    def pid(self) -> int | None:
        """Process id of the engine, None while there is none, or none that will carry out another request."""
        process = self._process
        return process.pid if process is not None and self._state.state != GONE else None

    def start(self) -> None:
        """Starts the engine process ahead of the first run; for after the window's first paint."""
        self._leave(self._ensure_process)

    def submit(self, request: RunRequest) -> None:
        """Hands a request over. Raises UserError when one is at work already."""
        if self._is_closing:
            raise UserError("The engine is closed; start evprof again.")
        if self._is_busy:
            raise UserError("A run is going on; stop it first, or wait until it has ended.")
        self._is_busy = True
        self._leave(partial(self._submit, request))

    def stop(self) -> None:
        """Asks the engine to stop; after two seconds without an answer its process is ended."""
        self._leave(self._stop)

    def attach(self, recording: RecordLog) -> None:
        """From now on `recording` is filled. Raises UserError while a run goes on."""
        if self._is_busy:
            raise UserError("A run is going on; stop it first, or wait until it has ended.")
        self._leave(partial(self._attach, recording))

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the engine process and the worker; a run at work ends as cancelled. Safe to call twice."""
        self._is_closing = True
        self._leave(None)
        self._worker.join(timeout_s)
        if self._worker.is_alive() and (process := self._process) is not None:
            process.kill()
            self._worker.join(timeout_s)

    def _leave(self, errand: Callable[[], object] | None) -> None:
        """Work for the worker; None ends it."""
        self._errands.append(errand)
        with contextlib.suppress(OSError):  # the worker is gone and has hung up
            self._ringer.send_bytes(b"!")

    # From here on everything runs on the worker.

    def _run(self) -> None:
        try:
            while self._step():
                pass
        finally:
            self._end(CANCELLED, "The program was closed during this run.", "The engine was closed.")
            self._bell.close()
            self._ringer.close()

    def _step(self) -> bool:
        """Waits for something to happen and deals with it. False when the worker is to end."""
        process = self._process
        sources = [self._bell, *([process.connection] if process else [])]
        ready = wait(sources, self._patience_s())
        if process is not None and process.connection in ready:
            self._receive(process)
        self._sample()
        if self._bell in ready:
            self._bell.recv_bytes()
            errand = self._errands.popleft()
            if errand is None:
                return False
            errand()
        if self._stop_deadline_ns is not None and self._clock() >= self._stop_deadline_ns:
            sentence = _RELOADS if self._has_started else _STARTS_ANEW
            self._end(CANCELLED, sentence, sentence)
        if self._process is not None and self._silence_left_ns() <= 0:
            sentence = f"{NO_PROGRESS} {self._limit_s:g} s and was ended, as --timeout asked for."
            self._end(FAILED, sentence, sentence)
        return True

    @property
    def _limit_s(self) -> float:
        """The longest silence of an engine at work."""
        limit_s = math.inf if self._timeout_s is None else self._timeout_s
        return limit_s if self._has_started else max(limit_s, START_PATIENCE_S)

    def _silence_left_ns(self) -> float:
        """Until an engine at work is ended for its silence; infinite where it may last."""
        return self._heard_ns + self._limit_s * NS_PER_S - self._clock() if self._is_busy else math.inf

    def _patience_s(self) -> float | None:
        wait_ns = self._silence_left_ns()
        if self._open.run_ids:
            wait_ns = min(wait_ns, INTERVAL_NS)
        if self._stop_deadline_ns is not None:
            wait_ns = min(wait_ns, self._stop_deadline_ns - self._clock())
        return max(0.0, wait_ns / NS_PER_S) if wait_ns < math.inf else None

    def _attach(self, recording: RecordLog) -> None:
        self._recording = recording
        recording.post(self._state)  # a new recording begins with what is known of the engine

    def _ensure_process(self) -> bool:
        if self._process is not None:
            return True
        try:
            self._process = EngineProcess(self._argv, environment=self._environment)
        except UserError as error:
            self._end(FAILED, error.sentence, error.sentence)
            self._post(EngineChanged(GONE, error.sentence))
            return False
        self._has_started = False
        self._samplers = RunSamplers(self._process.pid, clock=self._clock)
        self._post(EngineChanged(STARTING, "The engine is starting.", self._process.pid))
        return True

    def _submit(self, request: RunRequest) -> None:
        if self._process is not None and self._state.state == GONE:
            self._note_exit()  # it has said that it can do no more, such as after a lost GPU, and is about to end
        self._open.begin(request)
        self._heard_ns = self._clock()
        if self._ensure_process():
            self._tell(request.to_json())

    def _stop(self) -> None:
        if not self._open.is_busy or self._stop_deadline_ns is not None:
            return
        self._stop_deadline_ns = self._clock() + int(STOP_PATIENCE_S * NS_PER_S)
        self._tell(None)

    def _tell(self, command: Command) -> None:
        process = self._process
        if process is None:
            return
        try:
            process.send(command)
        except EngineGone:
            self._note_exit()

    def _receive(self, process: EngineProcess) -> None:
        try:
            parts = process.receive()
            self._heard_ns = self._clock()
            for part in parts:
                self._apply(part)
        except EngineGone:
            self._note_exit()
        except UserError as error:
            self._end(FAILED, error.sentence, error.sentence)
        except (ValueError, OverflowError, TypeError, AttributeError, ImportError) as error:
            # Pickle and columns raise these for what no engine of ours sends; the window outlives it.
            sentence = f"The engine sent something that cannot be recorded ({error}); install evprof again."
            self._end(FAILED, sentence, sentence)

    def _apply(self, part: Part) -> None:
        if isinstance(part, tuple):
            apply_part(part, self._recording)
        else:
            if isinstance(part, EngineChanged):
                self._has_started = True  # an engine tells of itself once it has started
            self._post(part)

    def _post(self, message: Message) -> None:
        if isinstance(message, EngineChanged):
            # The environment is told once and holds as long as the process lives.
            is_told = message.environment or message.state == GONE
            self._state = message if is_told else replace(message, environment=self._state.environment)
        was_busy = self._open.is_busy
        if self._samplers is not None:
            self._samplers.note(message, self._recording)
        self._open.note(message)
        if was_busy and not self._open.is_busy:
            self._rest()
        self._recording.post(message)

    def _rest(self) -> None:
        """The request is over. Called before that can be read: whoever reads it may submit at once."""
        self._stop_deadline_ns = None
        self._is_busy = False

    def _sample(self) -> None:
        if self._samplers is not None:
            self._samplers.sample(self._open.run_ids, self._recording)

    def _note_exit(self) -> None:
        """The engine process ended without being asked, or was killed after a timeout."""
        if self._process is None:
            return
        reason = self._process.reap()
        said = self._state.sentence if self._state.state == GONE else ""
        if self._stop_deadline_ns is not None:
            self._end(CANCELLED, f"Stopped. {reason}", reason)
        else:
            self._end(FAILED, said or reason, said or reason)

    def _end(self, status: str, run_sentence: str, engine_sentence: str) -> None:
        """Ends the process if there is one, keeps what it still sent, and closes whatever was open as `status`."""
        process, self._process, self._samplers = self._process, None, None
        if process is not None:
            process.kill()
            for part in process.leftovers():
                self._apply(part)
            process.reap()
        closing = self._open.close(status, run_sentence)
        if closing:
            self._rest()
        for message in closing:
            self._recording.post(message)
        if process is not None:
            self._post(EngineChanged(GONE, engine_sentence))


TAIL_BYTES = 16_384

LEFTOVER_PATIENCE_S = 0.5
"""How long a killed process may take to hang up; the kernel does it at once unless a driver holds the process."""


class EngineGone(Exception):  # noqa: N818 - a fact about the child, turned into a sentence by the host
    """The connection to the engine process ended."""


class EngineProcess:
    """One engine process. All methods but `kill` belong to one thread."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        channel: InheritedChannel | ListeningChannel | None = None,
    ) -> None:
        """Starts `argv` with `environment` added to ours. Raises UserError when it cannot be started."""
        channel = channel or make_channel()
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `reap`
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=self._printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {}), **channel.environment()},
                pass_fds=channel.inherited_fds(),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # Windows only
            )
        except OSError as error:
            channel.close()
            self._printed.close()
            raise UserError(f"The engine process {argv[0]} cannot be started: {error.strerror}.") from error
        try:
            self.connection: Wire = channel.connection(lambda: self._process.poll() is None)
        except UserError:
            self.kill()
            self._process.wait()
            self._printed.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, command: Command) -> None:
        """Tells the engine something. Raises EngineGone."""
        try:
            self.connection.send(command)
        except OSError as error:
            raise EngineGone from error

    def receive(self) -> list[Part]:
        """Waits for the next batch. Raises EngineGone at the end, UserError for anything but a batch."""
        try:
            said = self.connection.recv()
        except (EOFError, OSError) as error:
            raise EngineGone from error
        if not isinstance(said, list):
            raise UserError("The engine process said something evprof does not understand; install evprof again.")
        return said

    def leftovers(self) -> list[Part]:
        """After `kill`: everything the process had sent and nobody had received."""
        parts: list[Part] = []
        with contextlib.suppress(EngineGone, UserError, OSError, ValueError, TypeError, AttributeError, ImportError):
            while self.connection.poll(LEFTOVER_PATIENCE_S):
                parts += self.receive()
        return parts

    def kill(self) -> None:
        """Ends the process at once. Any thread may call this."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def reap(self, patience_s: float = 2.0) -> str:
        """Closes the connection, waits for the end (enforced after `patience_s`) and tells how it ended."""
        with contextlib.suppress(OSError, AttributeError):
            self.connection.close()
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        return _exit_sentence(code, self._last_words())

    def _last_words(self) -> str:
        """The end of what the process printed."""
        if self._printed.closed:
            return ""
        with self._printed:
            self._printed.seek(max(0, self._printed.seek(0, os.SEEK_END) - TAIL_BYTES))
            return self._printed.read().decode("utf-8", errors="replace")


def _exit_sentence(code: int, printed: str) -> str:
    if code < 0:
        name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
        sentence = f"The engine process was ended by {name}"
        if name == "SIGKILL":
            sentence += ", as the system does when memory runs out"
    else:
        sentence = f"The engine process ended with exit code {code}"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"{sentence}; it last said: {lines[-1][:300]}" if lines else f"{sentence}."
