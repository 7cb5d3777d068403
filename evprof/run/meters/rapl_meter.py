"""Energy of processor packages by RAPL, as Linux tells it in the folder of its power capping framework.

Kernels since 5.10 let only root read the counters. A counter that may not be read is left out: it is never 0.
"""

from __future__ import annotations

from pathlib import Path

from evprof.run.meters.meter import Reading

FOLDER = Path("/sys/class/powercap")

_UNIT = "energy_uj"


class RaplMeter:
    """One package, as a counter that goes on where the kernel's begins again from 0."""

    def __init__(self, zone: Path, device: str) -> None:
        self.device = device
        self._counter = zone / _UNIT
        self._range_uj = _number(zone / "max_energy_range_uj") or 0
        self._raw_uj: int | None = None
        self._laps_uj = 0

    def read(self) -> Reading | None:
        """Its energy in µJ; None while it cannot be read."""
        raw_uj = _number(self._counter)
        if raw_uj is None:
            return None
        if self._raw_uj is not None and raw_uj < self._raw_uj:
            self._laps_uj += self._range_uj
        self._raw_uj = raw_uj
        return Reading(energy_uj=self._laps_uj + raw_uj)


def package_zones(folder: Path | None = None) -> list[Path]:
    """The folders of all packages in the order of their numbers; none where the kernel offers none."""
    here = FOLDER if folder is None else folder
    zones = [zone for zone in here.glob("intel-rapl:*") if zone.name.count(":") == 1]
    named = {zone: _text(zone / "name") or "" for zone in zones}
    return sorted(
        (zone for zone, name in named.items() if name.startswith("package")),
        key=lambda zone: (len(named[zone]), named[zone]),
    )


def rapl_meters(folder: Path | None = None) -> list[RaplMeter]:
    """The packages whose counters may be read, numbered as the kernel numbers them."""
    found = [RaplMeter(zone, f"cpu:{number}") for number, zone in enumerate(package_zones(folder))]
    return [meter for meter in found if meter.read() is not None]


def rapl_problem(folder: Path | None = None) -> str | None:
    """A sentence when there are counters and none may be read; None otherwise."""
    zones = package_zones(folder)
    if not zones or rapl_meters(folder):
        return None
    return f"The processor's energy is not measured: only root may read {zones[0] / _UNIT}."


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
