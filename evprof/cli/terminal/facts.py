"""Descriptions as lines of name and value."""

from __future__ import annotations

from typing import Any

from evprof.core.units import number_text


def _shown(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "n/a"
    if value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number_text(value) if isinstance(value, float) else str(value)


def facts_lines(document: dict[str, Any], indent: str = "") -> list[str]:
    """A flat description as lines of name and value; lists one entry per line."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *facts_lines(value, indent + "  ")]
        elif isinstance(value, list) and value and not all(isinstance(entry, int | float) for entry in value):
            lines += [f"{indent}{name}:"]
            for entry in value:
                lines += facts_lines(entry, indent + "  ") if isinstance(entry, dict) else [f"{indent}  {entry}"]
        else:
            lines.append(f"{indent}{name:<{max(26, len(name) + 2)}}{_shown(value)}")
    return lines
