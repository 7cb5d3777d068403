"""A cluster of Ray, and places to work on it, one for each GPU or group of CPU threads: the one file that imports Ray.

A cluster of our own listens on the loopback address alone, has a token of its own, and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import psutil

from evprof.core.errors import UsageError, UserError
from evprof.core.files.held_file import HeldFile, is_held
from evprof.core.installation import how_to_add
from evprof.core.protocols import Closing
from evprof.core.units import count_text
from evprof.run.places.place import EngineSeat, SeatTerms
from evprof.run.places.ray_places import PlaceRoom, RayCrew, RayPlaces, reason_of

AUTO, LOCAL = "auto", "local"
"""A cluster that runs, else one of this machine's own; one of this machine's own."""

LOCAL_STORE_BYTES = 128 << 20
"""Shared memory of a cluster of our own: answers on their way, a few hundred KiB each."""

_OWN_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}

_LOOPBACK = "127.0.0.1"

_ANSWER_S, _TASK_S = 5.0, 120.0
"""Most seconds until a head answers, and until a machine has answered a question."""

_FOLDERS, _LOCK = "evprof-ray-", "lock"
"""How the folders of our own clusters are called, and the file in them that a living program holds."""

T = TypeVar("T")


class RayCluster(Closing):
    """A connection to Ray, one at a time in a process; close it."""

    def __init__(self, word: str, say: Callable[[str], None], *, cpus: int | None = None) -> None:
        """`word` is AUTO, LOCAL or the address of a cluster's head, HOST:PORT; `cpus` of a cluster of our own (None:
        all). `say` hears which one it is.

        Raises UserError: exit code 2 without Ray or for an address that is none, 1 where no cluster answers.
        """
        self._held = contextlib.ExitStack()
        self.is_local = word == LOCAL
        try:
            self._ray = self._connect(word, say, cpus)
        except BaseException:
            self._held.close()
            raise
        self._here = self._ray.get_runtime_context().get_node_id()

    def _connect(self, word: str, say: Callable[[str], None], cpus: int | None) -> Any:
        _check_address(word)
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # what dies is told by us, in a sentence
        is_asked = word not in (AUTO, LOCAL) or (word == AUTO and "RAY_ADDRESS" in os.environ)
        if not self.is_local:
            try:
                return self._join(word, say)
            except UserError:
                if is_asked:
                    raise
            say("no running Ray was found: one is started on this machine alone")
            self.is_local = True
        return self._start(say, cpus)

    def _join(self, word: str, say: Callable[[str], None]) -> Any:
        if "RAY_AUTH_MODE" not in os.environ and _has_token():
            # Ray's command line takes the user's token unasked, `ray.init` does not. It looks when it is imported.
            os.environ["RAY_AUTH_MODE"] = "token"
        ray = _ray()
        try:
            if word != AUTO:
                # Ray itself tries for a minute.
                host, _, port = word.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
            with _kept_signals():
                found = ray.init(address=word, log_to_driver=False, configure_logging=False)
        except (RuntimeError, ValueError, OverflowError, OSError) as error:
            raise UserError(
                f"--ray {word}: no Ray answers there ({reason_of(error)}); start it with `ray start --head`, or take "
                "--ray local."
            ) from None
        self._held.callback(ray.shutdown)
        say(f"Ray at {found.address_info['gcs_address']}" + _dashboard(found))
        return ray

    def _start(self, say: Callable[[str], None], cpus: int | None) -> Any:
        _sweep(Path(_short_folder() or tempfile.gettempdir()))
        # Ray opens its folder to all users of the machine; the one around it is the user's own.
        folder = tempfile.mkdtemp(prefix=_FOLDERS, dir=_short_folder())
        self._held.callback(shutil.rmtree, folder, ignore_errors=True)
        self._held.enter_context(HeldFile(Path(folder) / _LOCK))
        os.environ.update({**_OWN_SETTINGS, "RAY_AUTH_TOKEN": _own_token()})
        ray = _ray()
        self._held.enter_context(_no_cluster())
        try:
            with _kept_signals():
                found = ray.init(
                    address=LOCAL,
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=LOCAL_STORE_BYTES,
                    log_to_driver=False,
                    configure_logging=False,
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=os.path.join(folder, "r"),
                )
        except Exception as error:  # noqa: BLE001 - Ray raises bare ones where its own processes do not start
            ray.shutdown()
            raise UserError(f"Ray does not start on this machine: {reason_of(error)}; run evprof doctor.") from None
        self._held.callback(ray.shutdown)
        if found.address_info["node_ip_address"] != _LOOPBACK:
            raise UserError(
                "This version of Ray would listen beyond this machine; install the one evprof[ray] asks for."
            )
        say("Ray of this machine alone, which listens to nobody else" + _dashboard(found))
        return ray

    def slots(self, threads: int | None, *, on_gpus: bool) -> list[PlaceRoom]:
        """One for each GPU where there are any and they are wanted; else for so many CPU threads (None: a machine's
        all). Raises UserError where there is none."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        has_gpus = on_gpus and any(node["Resources"].get("GPU", 0) >= 1 for node in nodes)
        found: list[PlaceRoom] = []
        for node in sorted(nodes, key=lambda node: node["NodeID"] != self._here):
            cpus, gpus = (int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU"))
            each = threads or cpus
            count = gpus if has_gpus else cpus // each if each else 0
            slot = PlaceRoom(node["NodeID"], node["NodeManagerHostname"], int(has_gpus), 0 if has_gpus else each)
            found += [slot] * count
        if not found:
            raise UserError(
                f"No machine of the cluster has {count_text(threads or 1, 'CPU thread')} to give; ask for fewer with "
                "--ray-threads."
            )
        return found

    def ask(self, slot: PlaceRoom, function: Callable[..., T], *words: Any) -> T:
        """What a function answers on the slot's machine, in a process of its own. Raises its UserError."""
        task = self._ray.remote(num_cpus=0, num_gpus=slot.gpus, max_calls=1, max_retries=0)(_answered)
        try:
            answer, error = self._ray.get(task.options(**self._on(slot)).remote(function, words), timeout=_TASK_S)
        except self._ray.exceptions.RayError as failure:
            raise UserError(f"{slot.host}: {reason_of(failure)}; is the same evprof installed there?") from None
        if error is not None:
            raise UserError(f"{slot.host}: {error[0]}", exit_code=error[1])
        found: T = answer
        return found

    def places(self, slots: Sequence[PlaceRoom], terms: SeatTerms, say: Callable[[str], None]) -> RayPlaces:
        """A place in every slot. `terms` apply to all, except for the threads of a slot."""
        neighbours = Counter(slot.node_id for slot in slots)

        def own(slot: PlaceRoom) -> SeatTerms:
            threads = omp_threads(slot, terms.threads)
            return replace(terms, threads=threads, neighbours=neighbours[slot.node_id])

        return RayPlaces(self._ray, [self._starter(slot, 3, EngineSeat, own(slot)) for slot in slots], slots, say)

    def crew(self, slots: Sequence[PlaceRoom], worker: Callable[..., Any], *words: Any) -> RayCrew:
        """An actor in every slot, made by `worker` of these words, for work that is no measurement."""
        return RayCrew(self._ray, [self._starter(slot, 2, worker, *words) for slot in slots], slots)

    def elsewhere(self, slots: Sequence[PlaceRoom]) -> list[PlaceRoom]:
        return list({slot.node_id: slot for slot in reversed(slots) if slot.node_id != self._here}.values())

    def _starter(self, slot: PlaceRoom, at_once: int, worker: Callable[..., Any], *words: Any) -> Callable[[], Any]:
        actor = self._ray.remote(worker).options(
            num_cpus=slot.threads, num_gpus=slot.gpus, max_concurrency=at_once, max_restarts=0, **self._on(slot)
        )
        return partial(actor.remote, *words)

    def _on(self, slot: PlaceRoom) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(slot.node_id, soft=False)}

    def close(self) -> None:
        """Lets go of the cluster; one of our own ends with all its processes. Safe to call twice."""
        self._held.close()


def _answered(function: Callable[..., Any], words: Sequence[Any]) -> tuple[Any, tuple[str, int] | None]:
    """An answer, or sentence and exit code of a UserError: Ray would wrap it."""
    try:
        return function(*words), None
    except UserError as error:
        return None, (error.sentence, error.exit_code)


def _ray() -> Any:
    """The library. Raises UserError (exit code 2) without it."""
    try:
        import ray
    except ImportError:
        raise UsageError(f"--ray needs Ray; {how_to_add('evprof[ray]')}.") from None
    import ray.exceptions

    return ray


@cache
def _own_token() -> str:
    """The token of clusters of our own: a process has one, for Ray reads it once."""
    return secrets.token_hex(32)


def _has_token() -> bool:
    own = Path.home() / ".ray" / "auth_token"
    return any(name in os.environ for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")) or own.is_file()


def _check_address(word: str) -> None:
    host, colon, port = word.rpartition(":")
    if word not in (AUTO, LOCAL) and not (host and colon and port.isdecimal() and "/" not in host):
        raise UsageError(
            f"--ray must be auto, local or the address of a cluster's head such as 10.0.0.1:6379, not '{word}'."
        )


def omp_threads(slot: PlaceRoom, threads: int | None) -> int | None:
    """Threads of a place's engine: as asked; else as the person's own shell says; a machine's all where nobody does."""
    own = os.environ.get("OMP_NUM_THREADS", "")
    return threads or (int(own) if own.isdecimal() and not slot.gpus else None)


def _dashboard(found: Any) -> str:
    address = found.dashboard_url
    return f"; its dashboard: http://{address}" if address else ""


def _short_folder() -> str | None:
    """Where Ray's sockets may lie, whose paths have 107 letters at most."""
    return "/tmp" if len(tempfile.gettempdir()) > 24 and os.path.isdir("/tmp") else None


def _sweep(parent: Path) -> None:
    """Ends the processes and removes the folders that killed programs of this user left in `parent`."""
    for folder in parent.glob(f"{_FOLDERS}*"):
        with contextlib.suppress(OSError, psutil.Error):
            is_ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
            # Without a lock yet, another program is making it at this moment.
            if not is_ours or not (folder / _LOCK).exists() or is_held(folder / _LOCK):
                continue
            for process in psutil.process_iter(["cmdline"]):
                with contextlib.suppress(psutil.Error):
                    if _is_rays(process, str(folder)):
                        process.kill()
            shutil.rmtree(folder, ignore_errors=True)


def _is_rays(process: psutil.Process, folder: str) -> bool:
    """Whether a process is Ray's and works in this folder: an agent has only its logs open there."""
    words = process.info["cmdline"] or [""]
    if not Path(words[0]).name.startswith(("ray", "gcs_server")):
        return False
    return any(folder in word for word in words) or any(log.path.startswith(folder) for log in process.open_files())


@contextlib.contextmanager
def _no_cluster() -> Iterator[None]:
    """Inside, Ray takes the loopback address for its own, as on systems where it makes no clusters; elsewhere it takes
    the machine's outward one, whatever it is told."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def _kept_signals() -> Iterator[None]:
    """Ray takes SIGTERM when it starts; afterwards it is whose it was."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # not in the main thread, where nobody took it
            signal.signal(signal.SIGTERM, before)
