"""What runs may differ in without anybody having set it: machine, software, a model's files, prompt, sample.

What was set stands in a table of its own (`settings`): comparing that is what a comparison is for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evprof.core.run_info import PLACE, PLACES_AT_WORK, ModelFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import ARITHMETIC, MACHINE, METER, MODEL, PROMPT, SAMPLE
from evprof.metrics.figures.kept import kept

Told = Mapping[str, str | float]
"""Values of a circumstance by what they are told of ("" where there is one): only values of the same are compared."""


@dataclass(frozen=True)
class Circumstance:
    """`aspect` is what figures depend on (`Figure.depends_on`); `read` and `read_rows` give {} where nothing is told.

    `name` may hold a place for what it is told of. Numbers are alike within `tolerance`, a part of the larger; of
    several runs their median counts. `is_matched`: comparing takes what both sides have in common, so one such value is
    enough. `is_chosen_by_machine`: a setting that "auto" leaves to the machine; on one machine it was set.
    """

    name: str
    aspect: str
    read: Callable[[RunInfo], Told] = lambda _: {}
    read_rows: Callable[[RunLog], Told] = lambda _: {}
    tolerance: float = 0.0
    unit: str = ""
    is_matched: bool = False
    is_chosen_by_machine: bool = False

    def told_by(self, run: RunLog) -> Told:
        return {**self.read(run.info), **self.read_rows(run)}


def _known(value: Any, of: str = "") -> Told:
    is_told = isinstance(value, str | float | int) and not isinstance(value, bool) and value != ""
    return {of: value} if is_told else {}


def _environment(key: str) -> Callable[[RunInfo], Told]:
    return lambda info: _known(info.environment.get(key))


def _answering(info: RunInfo) -> ModelFacts | None:
    return info.models.get(info.role)


def _kind(info: RunInfo) -> str:
    """ "cpu", "cuda": another kind of device is a setting, and no other machine."""
    model = _answering(info)
    return model.device.partition(":")[0] if model else ""


def _device(info: RunInfo) -> Told:
    return _known(info.environment.get("device"), _kind(info))


def _card(info: RunInfo) -> Told:
    """Which card of its kind; a card at another place is a setting."""
    model = _answering(info)
    return _known(info.environment.get("gpu_id"), model.device) if model else {}


def _of_gpu(key: str) -> Callable[[RunInfo], Told]:
    def read(info: RunInfo) -> Told:
        return _known(info.environment.get(key)) if _kind(info) == "cuda" else {}

    return read


def _processors(info: RunInfo) -> Told:
    return _known(info.environment.get("cpus"), str(info.environment.get("processor")))


def _threads(info: RunInfo) -> Told:
    """A run takes as many as its models can use: comparable among runs of the same models on a CPU."""
    names = " + ".join(sorted(model.name for model in info.models.values()))
    return _known(info.environment.get("threads"), names) if _kind(info) == "cpu" else {}


def _most_of_gpu(key: str) -> Callable[[RunInfo], Told]:
    """The higher of the readings before and after the run, one of which may be of an idle GPU."""

    def read(info: RunInfo) -> Told:
        states = (info.environment.get(when) for when in ("gpu", "gpu_end"))
        values = [state.get(key) for state in states if isinstance(state, dict)]
        numbers = [value for value in values if isinstance(value, int | float)]
        return _known(max(numbers), str(info.environment.get("device"))) if numbers else {}

    return read


def _of_models(key: str) -> Callable[[RunInfo], Told]:
    return lambda info: {
        model.name: value for model in info.models.values() for value in _known(getattr(model, key)).values()
    }


def _python(info: RunInfo) -> Told:
    version = info.environment.get("python")
    return _known(".".join(version.split(".")[:2])) if isinstance(version, str) else {}


def _prompt(info: RunInfo) -> Told:
    return _known(info.sample.prompt)


def _sample(info: RunInfo) -> Told:
    """What was looked at: contents where they are known, which another machine keeps elsewhere; else the name."""
    sample = info.sample
    clip = f" {sample.clip_text}".rstrip()
    contents = {"events": sample.events_hash, "video": sample.video_hash}
    told = {half: f"{digest[-8:]}{clip}" for half, digest in contents.items() if digest}
    return told or _known(sample.name)


@kept()
def meters(run: RunLog) -> Told:
    """What a device's energy is read from: its own counter, or its power."""
    from evprof.metrics.figures.energy import COUNTER, POWER

    return {
        device: COUNTER if any(record.energy_uj >= 0 for record in records[:2]) else POWER
        for device, records in run.power.items()
    }


CIRCUMSTANCES = (
    Circumstance("prompt", PROMPT, _prompt, is_matched=True),
    Circumstance("sample", SAMPLE, _sample, is_matched=True),
    Circumstance("files of {}", MODEL, _of_models("content")),
    Circumstance("place", MACHINE, _environment(PLACE)),
    Circumstance("device", MACHINE, _device),
    Circumstance("torch", MACHINE, _environment("torch")),
    Circumstance("driver", MACHINE, _of_gpu("driver")),
    Circumstance("power limit", MACHINE, _most_of_gpu("power_limit_w"), tolerance=0.01, unit="W"),
    Circumstance("clocks", MACHINE, _most_of_gpu("clocks_mhz"), tolerance=0.1, unit="MHz"),
    Circumstance("threads", MACHINE, _threads),
    Circumstance("engines at once", MACHINE, _environment(PLACES_AT_WORK)),
    Circumstance("arithmetic of {}", ARITHMETIC, _of_models("dtype"), is_chosen_by_machine=True),
    Circumstance("evprof", MACHINE, _environment("evprof")),
    Circumstance("processor", MACHINE, _environment("processor")),
    Circumstance("processors", MACHINE, _processors),
    Circumstance("card", MACHINE, _card),
    Circumstance("CUDA", MACHINE, _of_gpu("cuda")),
    Circumstance("Triton", MACHINE, _of_gpu("triton")),
    Circumstance("transformers", MACHINE, _environment("transformers")),
    Circumstance("Python", MACHINE, _python),
    Circumstance("float32 products", ARITHMETIC, _environment("float32_matmul")),
    Circumstance("energy source of {}", METER, read_rows=meters),
)
"""In the order in which a sentence names them."""
