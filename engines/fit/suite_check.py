"""What a suite asks before it plans: whether all its models stay loaded together, and which cells pass a context.

Arithmetic on configurations, as everywhere; a model that cannot be found is left to its rows, which say so.
"""

from __future__ import annotations

from collections.abc import Iterable

from engines.fit.advice import BOTH, place, room_for
from engines.fit.requirements import MemoryNeed, ModelShape, memory_need, model_shape
from engines.hardware.device import Machine
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.run.suites.cell import SuiteConfiguration


class SuiteRoom:
    """Answers from models' shapes, each of which is worked out once."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or Machine()
        self._shapes: dict[tuple[str, str | None], ModelShape | None] = {}

    def family_of(self, name: str) -> str | None:
        """A model's family; None when it cannot be found."""
        shape = self._shape(ModelChoice(name))
        return None if shape is None else shape.config.family

    def fits(self, cells: Iterable[SuiteConfiguration]) -> bool:
        """Whether all models of all cells stay loaded together, each with room for its largest run."""
        largest: dict[tuple[str, ModelChoice], MemoryNeed] = {}
        for cell in cells:
            for role, choice in cell.weights():
                need = self._need(cell, role, choice)
                before = largest.get((role, choice))
                if need is not None and (before is None or need.total_bytes > before.total_bytes):
                    largest[role, choice] = need
        needs = list(largest.values())
        return place(needs, room_for(needs, self._machine)) == BOTH

    def past_context(self, cell: SuiteConfiguration) -> str | None:
        """Why a cell asks for more than a model was trained for; None when it does not."""
        for role in cell.roles:
            choice = cell.choice(role)
            need = self._need(cell, role, choice) if choice is not None else None
            shape = self._shape(choice) if choice is not None else None
            if need is None or shape is None:
                continue
            limit, new_tokens = shape.config.text.max_position_embeddings, cell.settings.max_new_tokens
            if need.positions.prompt + new_tokens > limit:
                return (
                    f"its prompt (about {need.positions.prompt:,}) and answer (up to {new_tokens:,} tokens) pass the "
                    f"{limit:,} positions that {need.name} was trained for"
                )
        return None

    def _need(self, cell: SuiteConfiguration, role: str, choice: ModelChoice) -> MemoryNeed | None:
        shape = self._shape(choice)
        if shape is None:
            return None
        try:
            settings = cell.settings.taken_by(role, drafts=mode_of(cell.mode).drafts)
            return memory_need(choice, role, settings, machine=self._machine, shape=shape)
        except UserError:
            return None

    def _shape(self, choice: ModelChoice) -> ModelShape | None:
        key = choice.name, choice.clip
        if key not in self._shapes:
            try:
                self._shapes[key] = model_shape(choice)
            except UserError:
                self._shapes[key] = None
        return self._shapes[key]
