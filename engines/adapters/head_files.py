"""The weight files of a published head: their headers at once, one tensor at a time, everything checked beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from engines.checkpoints.shards import StoredTensor, bin_header, read_tensors, safetensors_header, weight_files
from evprof.core.errors import UserError
from evprof.core.units import bytes_text
from evprof.loaders.adapters import AdapterInfo
from evprof.loaders.heads import MEDUSA_FILE

MOST_BYTES = 8 << 30
"""Of all tensors of a head together; five Medusa heads of a 13B model take two."""

_OUTER = ("model.", "medusa_head.")
"""What some programs set before every name."""


class HeadFiles:
    """`names` are those of all tensors, without what some programs set before them. Reading one counts it as known."""

    def __init__(self, info: AdapterInfo) -> None:
        self._info = info
        own = info.folder / MEDUSA_FILE
        files = [own] if own.is_file() else weight_files(info.folder)
        stored: dict[str, StoredTensor] = {}
        for path in files:
            for tensor in safetensors_header(path) if path.suffix == ".safetensors" else bin_header(path):
                name = tensor.name
                for outer in _OUTER:
                    name = name.removeprefix(outer)
                if name in stored:
                    raise UserError(f"{path} holds '{name[:80]}' twice; download the head again.")
                stored[name] = tensor
        total = sum(tensor.nbytes for tensor in stored.values())
        if total > MOST_BYTES:
            raise UserError(f"{info.folder} holds {bytes_text(total)}; a head has {bytes_text(MOST_BYTES)} at most.")
        self._stored = stored
        self._known: set[str] = set()
        self.nbytes = total

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor. Raises UserError where there is none."""
        return self._entry(name).shape

    def note(self, name: str) -> None:
        self._known.add(name)

    def joined(
        self,
        names: Sequence[str],
        rows: Sequence[int] | None,
        shape: tuple[int, ...],
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Concatenates tensors with `rows` rows each to `shape`. Raises UserError for missing, misshaped, non-float or
        non-finite ones."""
        parts: list[torch.Tensor] = []
        for name, count in zip(names, rows or (shape[0],), strict=True):
            entry, asked = self._entry(name), (count, *shape[1:])
            if entry.shape != asked:
                raise UserError(
                    f"{entry.path}: '{name}' is of shape {list(entry.shape)}, and its config.json asks for "
                    f"{list(asked)}; download the head again."
                )
            if not getattr(torch, entry.dtype).is_floating_point:
                raise UserError(f"{entry.path}: '{name}' is of type {entry.dtype}, and weights are needed.")
            parts.append(self._read(entry, device).to(dtype))
            if not bool(parts[-1].isfinite().all()):
                raise UserError(f"{entry.path}: '{name}' holds values that are not finite; download the head again.")
            self._known.add(name)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def whole_numbers(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor of whole numbers as int64 on the CPU. Raises UserError for anything else."""
        entry = self._entry(name)
        if entry.shape != shape or entry.dtype not in ("int64", "int32"):
            raise UserError(
                f"{entry.path}: '{name}' is of shape {list(entry.shape)} and type {entry.dtype}, and {list(shape)} "
                "whole numbers are needed."
            )
        self._known.add(name)
        return self._read(entry, torch.device("cpu")).long()

    def refuse_rest(self, ignored: Sequence[str], foreign: Mapping[str, str]) -> None:
        """Raises UserError for an unread tensor whose name ends in none of `ignored`. `foreign` maps parts of names to
        layouts."""
        rest = sorted(name for name in self.names - self._known if not name.endswith(tuple(ignored)))
        if not rest:
            return
        layout = self._info.layout
        word = layout.word if layout is not None else ""
        told = next((said for part, said in foreign.items() if any(part in name for name in rest)), None)
        if told is not None:
            raise UserError(f"{self._info.folder} is a head of {told}; evprof does not know its arithmetic.")
        raise UserError(f"{self._info.folder} holds '{rest[0][:80]}', which is no part of an {word} head.")

    def _entry(self, name: str) -> StoredTensor:
        entry = self._stored.get(name)
        if entry is None:
            layout = self._info.layout
            word = layout.word if layout is not None else "published"
            raise UserError(f"{self._info.folder} lacks '{name}', which an {word} head has; download the head again.")
        return entry

    def _read(self, entry: StoredTensor, device: torch.device) -> torch.Tensor:
        ((_, tensor),) = read_tensors([entry], device)
        return tensor
