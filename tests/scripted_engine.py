"""An engine that plays a script at human speed: stages, rounds, text and pictures that nobody computed.

For the window's own tests and for looking at it: everything that a real engine reports is there, at `speed` times the
pace of a person reading. Names, models and environment say that it is a script.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import Any

from evprof.core.errors import Cancelled
from evprof.core.protocols import (
    RequestEnded,
    RunDescribed,
    RunEnded,
    RunStarted,
    SetupProgressed,
    Sink,
    StopFlag,
    monotonic_ns,
)
from evprof.core.records import (
    DRAFT,
    ORIGIN_ACCEPTED,
    ORIGIN_BONUS,
    ORIGIN_DRAFT,
    ORIGIN_REJECTED,
    ORIGIN_TARGET,
    TARGET,
    JudgementRecord,
    Record,
    RoundRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import (
    CANCELLED,
    ENGINE_SESSION,
    FINISHED,
    SHARED,
    KvFacts,
    MemoryFacts,
    RunInfo,
    SetupFacts,
    SpeculationFacts,
    Turn,
)
from evprof.core.texts import join_pieces
from evprof.core.units import NS_PER_MS
from evprof.core.vocabulary.drafters import KV, MODEL
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.run.requests import run_order
from scripted_pair import Script, token_id_of
from scripted_records import ScriptedRecords

_WRONG = " maybe"
_SHARED_IDS, _TARGET_IDS = 980, 997


def facts_of(request: RunRequest, script: Script) -> SpeculationFacts:
    asked = request.settings.speculation
    if mode_of(request.mode).maps_cache:
        name = asked.adapter or "scripted map"
        return SpeculationFacts(name, KV, adapter=asked.adapter, length="fixed", is_lossless=False)
    is_model = asked.drafter == MODEL
    runs_beside = mode_of(request.mode).is_parallel
    return SpeculationFacts(
        script.draft.facts.name if asked.needs_draft_model else f"scripted {asked.drafter}",
        asked.drafter,
        adapter=asked.adapter,
        alignment=SHARED if is_model else "same",
        shared_ids=_SHARED_IDS if is_model else None,
        draft_ids=_SHARED_IDS if is_model else None,
        target_ids=_TARGET_IDS if is_model else None,
        length=asked.length,
        tree=asked.tree,
        concurrency="threads" if runs_beside else None,
        draft_threads=1 if runs_beside else None,
        target_threads=1 if runs_beside else None,
    )


def proposal_of(answer: Sequence[str], place: int, drafted: int, accepted: int, index: int) -> list[str]:
    """Pieces drafted for `place` on: so many right ones, then wrong ones, the first in turn of another kind."""
    right = list(answer[place : place + accepted])
    wrong = [_WRONG] * (drafted - len(right))
    following = answer[place + accepted : place + accepted + 2]
    if wrong and len(following) == 2 and index % 3 == 1:
        wrong[0] = following[1]  # a word too early
    elif wrong and following and index % 3 == 2:
        wrong[0] = following[0].upper()
    return right + wrong


def judgements_of(
    run_id: int, index: int, place: int, *, answer: Sequence[str], proposal: Sequence[str], accepted: int
) -> list[JudgementRecord]:
    """Plausible probabilities of what was judged: the accepted pieces and the first rejected one."""
    found = []
    for offset, piece in enumerate(proposal[: accepted + 1]):
        if place + offset >= len(answer):
            break
        target, stands = answer[place + offset], offset < accepted
        # Between 0 and 0.29, by the piece: the same script says the same every time.
        doubt = token_id_of(piece + target) % 30 * 10_000
        draft_ppm, target_ppm = 980_000 - doubt, 990_000 - doubt // 2
        cross_ppm = target_ppm if stands else 5_000 + doubt // 10
        overlap_ppm = min(draft_ppm, target_ppm) if stands else cross_ppm + 2_000
        found.append(
            JudgementRecord(
                run_id,
                index,
                offset,
                place + offset,
                token_id_of(piece),
                token_id_of(target),
                int(stands),
                draft_ppm,
                cross_ppm,
                target_ppm,
                overlap_ppm,
                piece,
                target,
            )
        )
    return found


ENVIRONMENT: dict[str, Any] = {
    "device": "scripted",
    "driver": None,
    "torch": None,
    "transformers": None,
    "python": None,
    "threads": None,
    "gpu": None,
}


class _AsAsked(random.Random):
    """Draws every turn in the order of the configurations, so that tests can name runs."""

    def sample(self, population: Sequence[Any], k: int, *, counts: Any = None) -> list[Any]:
        return list(population)


class ScriptedEngine:
    """An Engine that plays a Script. `speed` 10 is ten times as fast; Stop is answered between tokens and stages.

    `is_warm`: the models are loaded from the start.
    """

    def __init__(self, script: Script | None = None, *, speed: float = 1.0, is_warm: bool = False) -> None:
        self._script = script or Script()
        self._speed = speed
        self._warm = {model.facts.name for model in (self._script.draft, self._script.target) if is_warm}
        self._environment = {**ENVIRONMENT, ENGINE_SESSION: secrets.token_hex(4)}

    def describe(self) -> dict[str, Any]:
        return dict(self._environment)

    def run(self, request: RunRequest, sink: Sink, stop: StopFlag) -> None:
        """Plays the runs of `request.mode`, warm-up and repetitions included."""
        order = run_order(request, lambda role: self._models(request, role) <= self._warm, _AsAsked())
        for run_id, (role, repeat, turn) in enumerate(order, request.first_run_id):
            play = _Play(
                script=self._script,
                speed=self._speed,
                request=request,
                run_id=run_id,
                role=role,
                repeat=repeat,
                turn=turn,
                environment=self._environment,
                sink=sink,
                stop=stop,
            )
            if not play.perform(self._warm):
                break
        sink.post(RequestEnded(request.first_run_id))

    def _models(self, request: RunRequest, role: str) -> set[str]:
        roles = request.roles if mode_of(request.mode).is_paired else (role,)
        return {(self._script.draft if role == DRAFT else self._script.target).facts.name for role in roles}

    def close(self) -> None:
        self._warm.clear()


@dataclass(kw_only=True)
class _Play(ScriptedRecords):
    """One run of the script."""

    repeat: int
    turn: Turn | None
    environment: dict[str, Any]
    _rolled_back: int = 0
    _rounds: int = 0
    _proposals: dict[int, list[str]] = field(default_factory=dict)
    _judgements: list[JudgementRecord] = field(default_factory=list)
    _prefilled: set[str] = field(default_factory=set)
    _hidden: int = 0
    _hidden_start_ns: int = 0
    _hidden_draft_ns: int = 0

    def perform(self, warm: set[str]) -> bool:
        """Plays it; False when it was stopped."""
        mode = self.request.mode
        roles = self.request.roles if mode_of(mode).is_paired else (self.role,)
        self.sink.post(RunStarted(self.run_id, self._info()))
        status, error = FINISHED, None
        try:
            for role in roles:
                self._set_up(role, warm)
            if mode_of(mode).is_paired:
                self.sink.post(RunDescribed(self.run_id, {"speculation": facts_of(self.request, self.script)}))
            self.sink.post(RunDescribed(self.run_id, {"start_ns": monotonic_ns()}))
            if mode_of(mode).is_parallel:
                self._prefill_both()
            elif mode_of(mode).maps_cache:
                self._together(self._read_and_prefill(DRAFT))
                self._together(self._map_cache())
            else:
                for role in roles:
                    self._together(self._read_and_prefill(role))
            with self.stage(self.role, "decode") as span_id:
                if mode_of(mode).is_parallel:
                    self._verify_hidden(span_id)
                if mode == SPECULATIVE or (mode_of(mode).is_parallel and self._speculation.afterwards == "rounds"):
                    self._speculate()
                else:
                    self._decode()
        except Cancelled:
            status, error = CANCELLED, None
        late: list[Record] = [*self._judgements] if self._speculation.judges else []
        late += self.alternatives if self.request.settings.alternatives else []
        for record in late:
            self.sink.append(record)
        facts = self._outcome(roles) if status == FINISHED else {**self._outcome(roles), "warmup": False}
        self.sink.post(RunEnded(self.run_id, status, error, facts))
        return status == FINISHED

    @property
    def _speculation(self) -> SpeculationSettings:
        return self.request.settings.speculation

    def _together(self, *tracks: Generator[float, None, None]) -> None:
        """Plays what each track does between the times it gives, in ms; several go on side by side."""
        waiting = [(0.0, number, track) for number, track in enumerate(tracks)]
        now = 0.0
        with ExitStack() as stack:
            for track in tracks:
                stack.enter_context(closing(track))
            while waiting:
                at, number, track = heappop(waiting)
                self.wait(at - now)
                now = max(now, at)
                duration = next(track, None)
                if duration is not None:
                    heappush(waiting, (now + duration, number, track))

    def _info(self) -> RunInfo:
        sample, settings = self.request.sample, self.request.settings
        return RunInfo(
            run_id=self.run_id,
            group_id=self.request.group_id,
            repeat=max(self.repeat, 0) + self.request.first_repeat,
            role=self.role,
            mode=self.request.mode,
            settings=settings,
            sample=sample,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            warmup=self.repeat < 0,
            environment=dict(self.environment),
            cell=self.request.cell,
            turn=self.turn,
        )

    def _set_up(self, role: str, warm: set[str]) -> None:
        facts = self.model(role).facts
        setup = SetupFacts()
        if facts.name not in warm:
            began_ns, held = monotonic_ns(), facts.weight_bytes or 0
            for tenth in range(11):
                self.sink.post(SetupProgressed(self.run_id, role, held * tenth // 10, held))
                self.wait(self.script.setup_ms / 11)
            setup = SetupFacts(weights_ms=(monotonic_ns() - began_ns) / NS_PER_MS)
            warm.add(facts.name)
        self.sink.post(RunDescribed(self.run_id, {"models": {role: facts}, "setup": {role: setup}}))

    def _read_and_prefill(self, role: str) -> Generator[float, None, None]:
        model = self.model(role)
        facts, lengths = model.facts, model.lengths
        with self.stage(role, "load") as span_id, self.span(role, "read", span_id):
            yield model.load_ms
        with self.stage(role, "preprocess") as span_id:
            yield model.preprocess_ms
            self.show_pictures(role, model)
            self.tensor(span_id, "out", "pixel_values", (model.pictures, 3, 64, 64))
        self.sink.post(RunDescribed(self.run_id, {"lengths": {role: lengths}}))
        with self.stage(role, "vision") as span_id:
            with self.span(role, "tower", span_id) as child_id:
                self.tensor(child_id, "in", "pixel_values", (model.pictures, 3, 64, 64))
                yield model.vision_ms * 0.8
            with self.span(role, "projector", span_id):
                yield model.vision_ms * 0.2
            self.tensor(span_id, "out", "visual_embeddings", (1, lengths.visual, 512))
        with self.stage(role, "prefill") as span_id:
            self.tensor(span_id, "in", "embeddings", (1, lengths.input, 512))
            with self.span(role, "embeddings", span_id):
                yield model.prefill_ms * 0.05
            yield model.prefill_ms * 0.95
        self.grow(role, facts, lengths.input)
        if role == self.role and not mode_of(self.request.mode).is_parallel:
            self.token(ORIGIN_TARGET, model.answer[0])
        self._prefilled.add(role)

    def _map_cache(self) -> Generator[float, None, None]:
        """The target's way through an adapted cache: its text, and the map of what the draft made of the input."""
        target = self.script.target
        with self.stage(TARGET, "preprocess"):
            yield target.preprocess_ms * 0.05
        self.sink.post(RunDescribed(self.run_id, {"lengths": {TARGET: target.lengths}}))
        with self.stage(TARGET, "prefill") as span_id:
            with self.span(TARGET, "map cache", span_id):
                yield target.prefill_ms * 0.02
            yield target.prefill_ms * 0.05
        self.grow(TARGET, target.facts, target.lengths.input)
        self.token(ORIGIN_DRAFT, self._answer()[0])

    def _prefill_both(self) -> None:
        """The draft beside the target, from its load or its prefill on; it drafts until the target has prefilled."""
        target = self.script.target
        late_ms = target.load_ms + target.preprocess_ms + target.vision_ms if self._speculation.begins != "load" else 0
        self._together(self._read_and_prefill(TARGET), self._draft_beside(late_ms))

    def _draft_beside(self, late_ms: float) -> Generator[float, None, None]:
        yield late_ms
        yield from self._read_and_prefill(DRAFT)
        answer, forced = self._answer(), self._speculation.hidden
        most = min(self.script.hidden[0] if forced is None else forced, len(answer) - 1)
        with self.stage(DRAFT, "decode"):
            self._hidden_start_ns = monotonic_ns()
            while self._hidden < most and (forced is not None or TARGET not in self._prefilled):
                yield self.script.draft.token_ms
                self._hidden += 1
                self.grow(DRAFT, self.script.draft.facts, 1)
            self._hidden_draft_ns = monotonic_ns() - self._hidden_start_ns

    def _verify_hidden(self, span_id: int) -> None:
        """The block that was drafted inside the prefill; it holds the answer's first token."""
        answer, target = self._answer(), self.script.target
        if not self._hidden:
            self.token(ORIGIN_TARGET, answer[0])
            return
        start_ns = monotonic_ns()
        if self._speculation.verify == "after":
            with self.span(TARGET, "verify", span_id):
                self.wait(target.token_ms)
        verify_ns = monotonic_ns() - start_ns if self._speculation.verify == "after" else 0
        accepted = min(self.script.hidden[1], self._hidden, len(answer) - 1)
        emitted = self._take(0, answer, self._hidden, accepted)
        self.grow(TARGET, target.facts, emitted - 1)
        self.grow(DRAFT, self.script.draft.facts, accepted - self._hidden)
        spent_ns = (self._hidden_start_ns, self._hidden_draft_ns, verify_ns, 0)
        self._note_round(0, spent_ns, (self._hidden, accepted, emitted), hidden=True)
        self._rounds = 1

    def _answer(self) -> tuple[str, ...]:
        """What is to be said; through an adapted cache every seventh piece is another one."""
        answer = self.model(self.role).answer[: self.request.settings.max_new_tokens]
        if not mode_of(self.request.mode).maps_cache:
            return answer
        return tuple(" maybe" if place % 7 == 6 else piece for place, piece in enumerate(answer))

    def _decode(self) -> None:
        model = self.model(self.role)
        for piece in self._answer()[len(self.pieces) :]:
            self.wait(model.token_ms)
            self.grow(self.role, model.facts, 1)
            self.token(ORIGIN_DRAFT if mode_of(self.request.mode).maps_cache else ORIGIN_TARGET, piece)

    def _speculate(self) -> None:
        gamma = self.request.settings.speculation.gamma
        answer = self._answer()
        while len(self.pieces) < len(answer):
            left = len(answer) - len(self.pieces)
            drafted = min(gamma, left)
            accepted = min(self.script.accepted[self._rounds % len(self.script.accepted)], drafted)
            self._play_round(self._rounds, answer, drafted, accepted)
            self._rounds += 1

    def _play_round(self, index: int, answer: tuple[str, ...], drafted: int, accepted: int) -> None:
        draft, target = self.script.draft, self.script.target
        has_cache = DRAFT in self.request.roles
        start_ns = monotonic_ns()
        self.wait(draft.token_ms * 0.2 * drafted)
        if has_cache:
            self.grow(DRAFT, draft.facts, drafted)
        verify_ns = monotonic_ns()
        self.wait(target.token_ms)
        self.grow(TARGET, target.facts, drafted + 1)
        rollback_ns = monotonic_ns()
        if has_cache:
            self.grow(DRAFT, draft.facts, accepted - drafted)
        spent_ns = (start_ns, verify_ns - start_ns, rollback_ns - verify_ns, monotonic_ns() - rollback_ns)
        emitted = self._take(index, answer, drafted, accepted)
        self.grow(TARGET, target.facts, emitted - drafted - 1)
        self._note_round(index, spent_ns, (drafted, accepted, emitted))

    def _take(self, index: int, answer: tuple[str, ...], drafted: int, accepted: int) -> int:
        """Puts a round's tokens into the answer, and the rejected ones beside it; returns how many it gave."""
        place = len(self.pieces)
        self._rolled_back += drafted - accepted
        proposal = proposal_of(answer, place, drafted, accepted, index)
        self._proposals[index] = proposal
        self._judgements += judgements_of(
            self.run_id, index, place, answer=answer, proposal=proposal, accepted=accepted
        )
        for piece in proposal[:accepted]:
            self.token(ORIGIN_ACCEPTED, piece, index)
        for offset, piece in enumerate(proposal[accepted:]):
            self.token(ORIGIN_REJECTED, piece, index, position=place + accepted + offset)
        has_bonus = len(self.pieces) < len(answer)
        if has_bonus:
            self.token(ORIGIN_BONUS, answer[len(self.pieces)], index)
        return accepted + has_bonus

    def _note_round(
        self, index: int, spent_ns: tuple[int, int, int, int], counts: tuple[int, int, int], *, hidden: bool = False
    ) -> None:
        """`spent_ns`: start, drafting, verifying, rolling back; `counts`: drafted, accepted, emitted."""
        ids = ",".join(str(token_id_of(piece)) for piece in self._proposals[index])
        self.sink.append(RoundRecord(self.run_id, index, *spent_ns, *counts, ids, int(hidden)))

    def _outcome(self, roles: tuple[str, ...]) -> dict[str, Any]:
        kv: dict[str, KvFacts] = {}
        for role in roles:
            model, length = self.model(role), self.lengths.get(role, 0)
            kv_bytes = length * model.kv_position_bytes
            kv[role] = KvFacts(
                measured_bytes=kv_bytes,
                reserved_bytes=kv_bytes,
                per_layer_bytes=[kv_bytes // model.facts.layers] * model.facts.layers,
                rolled_back=self._rolled_back,
            )
        return {
            "end_ns": monotonic_ns(),
            "text": join_pieces(piece for piece in self.pieces if piece != "</s>"),
            "kv": kv,
            "memory": MemoryFacts(weights_bytes=sum(self.model(role).facts.weight_bytes or 0 for role in roles)),
        }
