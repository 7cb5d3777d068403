"""A GPU that is not there: tensors say they lie on cuda:0, and what would make the host wait for it is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda:0")

_READS = ("item", "tolist", "numpy", "cpu", "nonzero", "__int__", "__bool__", "__float__", "__index__")
_FROM_HOST = (torch.tensor, torch.as_tensor)
_Tensor: Any = torch.Tensor


class PretendedCuda(TorchFunctionMode):
    """While it is entered all tensors seem to lie on cuda:0, save those made of the host's numbers and not moved yet.

    `waits` are the calls for which a host would wait until a real one had done all that was queued. Nothing of it is
    real: everything is computed on the CPU, by one thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        # Held, so that no other tensor gets their addresses.
        self._host: dict[int, tuple[torch.Tensor, bool]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, words = getattr(func, "__name__", ""), dict(kwargs or {})
        first = args[0] if args else None
        if name == "__get__":
            return self._told(func, first, func(*args))
        if func in _FROM_HOST:
            return self._made(func, args, words)
        if name == "to" and isinstance(first, torch.Tensor):
            return self._moved(first, args[1:], words)
        if name == "pin_memory" and isinstance(first, torch.Tensor):
            return self._on_host(first.clone(), is_pinned=True)
        taken = list(_tensors_in((args, words)))
        is_host = "device" not in words and all(map(self._is_on_host, taken))
        if name in _READS and not is_host:
            self.waits.append(name)
        if name in ("__getitem__", "__setitem__"):
            if not is_host and _has_list(args[1]):
                self.waits.append(f"{name} with a list")
        elif not is_host and any(self._is_on_host(tensor) and tensor.dim() for tensor in taken):
            raise RuntimeError(f"{name} of tensors on cuda:0 and on the host")
        pins = words.pop("pin_memory", False)
        words.pop("device", None)
        made = func(*args, **words)
        if isinstance(made, torch.Tensor) and (pins or is_host):
            return self._on_host(made, is_pinned=pins)
        return made

    def _told(self, func: Any, of: Any, value: Any) -> Any:
        if func == _Tensor.device.__get__ and not self._is_on_host(of):
            return GPU
        return True if func == _Tensor.is_cuda.__get__ and not self._is_on_host(of) else value

    def _made(self, func: Callable[..., Any], args: tuple[Any, ...], words: dict[str, Any]) -> torch.Tensor:
        device = torch.device(words.pop("device", "cpu"))
        made: torch.Tensor = func(*args, **{name: value for name, value in words.items() if name != "pin_memory"})
        if device.type != "cuda":
            return self._on_host(made, is_pinned=words.get("pin_memory", False))
        self.waits.append("a tensor made on the device")
        return made

    def _moved(self, tensor: torch.Tensor, places: tuple[Any, ...], words: dict[str, Any]) -> torch.Tensor:
        asked = [torch.device(place) for place in (*places, words.pop("device", None)) if _is_device(place)]
        kept: Any = [place for place in places if isinstance(place, torch.dtype | torch.Tensor)]
        waits_not = words.pop("non_blocking", True in places)
        made = tensor.to(*kept, **words) if kept or words else tensor
        if not asked:
            return made
        _, is_pinned = self._host.get(id(tensor), (tensor, False))
        if self._is_on_host(tensor) and asked[0].type == "cuda":
            if tensor.numel() and not (is_pinned and waits_not):
                self.waits.append("a copy to the device")
            return made.clone()
        if not self._is_on_host(tensor) and asked[0].type == "cpu":
            self.waits.append("a copy to the host")
            return self._on_host(made.clone())
        return made

    def _on_host(self, tensor: torch.Tensor, *, is_pinned: bool = False) -> torch.Tensor:
        self._host[id(tensor)] = tensor, is_pinned
        return tensor

    def _is_on_host(self, tensor: Any) -> bool:
        return id(tensor) in self._host


def _tensors_in(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors_in(list(given.values()))
    elif isinstance(given, list | tuple):
        for part in given:
            yield from _tensors_in(part)


def _is_device(word: Any) -> bool:
    return isinstance(word, torch.device) or (isinstance(word, str) and word.partition(":")[0] in ("cpu", "cuda"))


def _has_list(index: Any) -> bool:
    return isinstance(index, list) or (isinstance(index, tuple) and any(isinstance(part, list) for part in index))
