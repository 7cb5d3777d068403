"""Rest between rows: by time or by temperature, with an end to the waiting and a clock of our own."""

from __future__ import annotations

import threading

import pytest

from evprof.core.errors import UserError
from evprof.run.meters import cooldown
from evprof.run.meters.cooldown import LIMIT_S, CoolingPause, nvml_thermometer
from fake_nvml import FakeClock, FakeGpu, FakeNvml

Cooldown = cooldown.Cooldown
S = 1_000_000_000


class Rest:
    """A pause whose waits are counted and not waited; every second the GPU gets one degree cooler."""

    def __init__(self, asked: str, start_c: int | None, coolest_c: int = 0) -> None:
        self.clock, self.waits, self.said = FakeClock(), list[float](), list[str]()
        self.start_c, self.coolest_c = start_c, coolest_c
        self.is_stopped = False
        self.pause = CoolingPause(
            Cooldown.of(asked),
            threading.Event(),
            self.said.append,
            thermometer=self.temperature,
            clock=self.clock,
            wait=self.wait,
        )

    def temperature(self) -> int | None:
        return None if self.start_c is None else max(self.coolest_c, self.start_c - self.clock.now_ns // S)

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.clock.now_ns += int(seconds * S)
        return self.is_stopped


@pytest.mark.parametrize(("words", "said"), [
    (30, "30 s"), ("30", "30 s"), ("2.5s", "2.5 s"), ("60C", "60 °C"), ("60 °C", "60 °C"), ("60c", "60 °C"),
])  # fmt: skip
def test_seconds_and_temperatures_are_understood(words, said):
    assert str(Cooldown.of(words)) == said
    assert Cooldown.of(words)


@pytest.mark.parametrize("words", ["soon", "60F", "-3", True, "", "601", [30], "nan", "1e3"])
def test_others_are_refused_in_a_sentence(words):
    with pytest.raises(UserError, match="cooldown must be") as refusal:
        Cooldown.of(words)
    assert refusal.value.exit_code == 2


def test_a_temperature_is_waited_for_and_no_longer():
    rest = Rest("60C", 75)
    rest.pause.rest()
    assert (rest.temperature(), sum(rest.waits), rest.said) == (60, 15, [])
    rest.pause.rest()
    assert sum(rest.waits) == 15


def test_a_gpu_that_does_not_get_cool_is_measured_all_the_same():
    rest = Rest("40C", 90, coolest_c=52)
    rest.pause.rest()
    assert sum(rest.waits) == LIMIT_S
    assert rest.said == [
        "a GPU is still at 52 °C after 10 minutes of waiting for 40 °C; the next row is measured all the same"
    ]


def test_the_hottest_gpu_counts(monkeypatch):
    gpus = [FakeGpu(temperature_c=lambda _: 44), FakeGpu(temperature_c=lambda _: 71), FakeGpu()]
    monkeypatch.setattr(cooldown, "nvml_meters", FakeNvml(gpus, FakeClock()).meters)
    assert nvml_thermometer()() == 71
    monkeypatch.setattr(cooldown, "nvml_meters", list)
    assert nvml_thermometer()() is None
