"""The `%` header lines of Prophesee's RAW and DAT files; it knows nothing of the events that follow them.

RAW and DAT share the lines and are told apart by their keys: RAW has `evt` or `format`, DAT `Version`, `Width` and
`Height`. Where `format` and `evt` disagree, `format` counts: `evt` is the older key, kept for older readers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST_HEADER = 65_536
"""Bytes that header lines may take."""

_LONGEST_LINE = 4096
_MOST_LINES = 1000

_RAW_FORMATS = {"evt2": "evt2", "evt20": "evt2", "evt21": "evt2.1", "evt3": "evt3", "evt30": "evt3"}
_RAW_VERSIONS = {"2": "evt2", "2.0": "evt2", "2.1": "evt2.1", "3": "evt3", "3.0": "evt3"}
_OTHER_ENCODINGS = re.compile(r"EVT\s?\d|AER|HISTO3D|DIFF3D|\d\.\d$", re.IGNORECASE)
_RAW_SIGNS = frozenset(
    {
        *("integrator_name", "plugin_integrator_name", "camera_integrator_name", "plugin_name", "system_id"),
        *("subsystem_id", "sub_system_id", "serial_number", "firmware_version", "sensor_generation", "sensor_name"),
    }
)
_DAT_SIGNS = frozenset({"version", "width", "height"})
_DETAILS = {
    "sensor_name": "sensor",
    "sensor_generation": "sensor_generation",
    "integrator_name": "integrator",
    "camera_integrator_name": "integrator",
    "serial_number": "serial",
    "firmware_version": "firmware",
    "date": "recorded",
}


_SYSTEMS = {
    **dict.fromkeys((0x15, 0x17, 0x19, 0x1C, 0x1D, 0x21, 0x22, 0x23, 0x28, 0x29), (640, 480)),
    **dict.fromkeys((0x1A, 0x1E, 0x1F, 0x27, 0x2E, 0x30, 0x31, 0x32), (1280, 720)),
}
"""Prophesee's cameras by `system_ID`, whose headers named no size before 2021 or so (numbers and sizes: OpenEB)."""


@dataclass(frozen=True)
class PropheseeHeader:
    """Lines of a header: lower-case key -> text. `length`: bytes before what follows the lines.

    `named` is what the lines say the file is: `evt2`, `evt2.1`, `evt3`, `dat`, `raw` (a RAW file that does not name
    its encoding), `other` (one whose encoding is not read here), or None.
    """

    lines: dict[str, str] = field(default_factory=dict)
    length: int = 0

    @property
    def named(self) -> str | None:
        options = self.lines.get("format", "").split(";")
        if form := _RAW_FORMATS.get(re.sub(r"[\s._]", "", options[0]).lower()):
            return form
        if form := _RAW_VERSIONS.get(self.lines.get("evt", "")):
            return form
        if "format" in self.lines or "evt" in self.lines:
            return "other" if _OTHER_ENCODINGS.match(options[0] or self.lines.get("evt", "")) else None
        if _RAW_SIGNS & self.lines.keys():
            return "raw"
        return "dat" if _DAT_SIGNS & self.lines.keys() else None

    @property
    def options(self) -> dict[str, str]:
        """The `name=value` parts of the `format` line."""
        parts = (part.partition("=") for part in self.lines.get("format", "").split(";")[1:])
        return {name.strip().lower(): value.strip() for name, _, value in parts}

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height of the sensor, where the header says them."""
        options = self.options
        geometry = re.match(r"(\d+)\s*x\s*(\d+)", self.lines.get("geometry", ""))
        for width, height in (
            (options.get("width", ""), options.get("height", "")),
            geometry.groups() if geometry else ("", ""),
            (self.lines.get("width", ""), self.lines.get("height", "")),
        ):
            if re.fullmatch(r"\d{1,5}", width) and re.fullmatch(r"\d{1,5}", height) and int(width) and int(height):
                return int(width), int(height)
        system = self.lines.get("system_id", "")
        makers = {value for key, value in self.lines.items() if key.endswith("integrator_name")}
        return _SYSTEMS.get(int(system)) if makers == {"Prophesee"} and re.fullmatch(r"\d{1,5}", system) else None

    @property
    def is_legacy(self) -> bool | None:
        """Whether EVT2.1's words have their 32-bit halves swapped; None where the header does not say."""
        order = (self.options.get("endianness") or self.lines.get("endianness", "")).lower()
        return {"legacy": True, "little": False}.get(order)

    @property
    def offset_us(self) -> int:
        """Microseconds to add to every time; `t0`, which faery writes."""
        text = self.lines.get("t0", "0")
        return int(text) if re.fullmatch(r"\d{1,18}", text) else 0

    @property
    def details(self) -> dict[str, str | int | float]:
        """What else is said of camera and recording."""
        return {name: self.lines[key] for key, name in _DETAILS.items() if self.lines.get(key)}


def read_header(head: bytes) -> PropheseeHeader:
    """Parses the lines that `head`, the start of a file, begins with.

    The lines end with `% end`, or before the first line that is no text after a `%`: what follows may be anything.
    """
    lines: dict[str, str] = {}
    position = 0
    while head.startswith(b"%", position) and len(lines) < _MOST_LINES:
        end = head.find(b"\n", position, position + _LONGEST_LINE)
        if end < 0:
            break
        text = _text(head[position + 1 : end])
        if text is None:
            break
        position = end + 1
        key, _, value = text.strip().partition(" ")
        if key.lower() == "end" and not value:
            break
        if key:
            lines[key.lower()] = " ".join(value.split())
    return PropheseeHeader(lines, position)


def _text(line: bytes) -> str | None:
    try:
        text = line.decode("utf-8").replace("\t", " ").rstrip("\r")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def names(form: str, head: bytes) -> bool:
    """Whether a file that begins with `head` says that it is of format `form`."""
    if not head.startswith(b"%"):
        return False
    header = read_header(head)
    if form != "dat":
        return header.named == form or (header.named in ("raw", "other") and form == "evt2")
    # Type and size of a record follow the lines; there is no other size.
    return header.named == "dat" and head[header.length + 1 : header.length + 2] in (b"\x08", b"")
