"""`python -m evprof`."""

from __future__ import annotations

from evprof.cli import start

if __name__ == "__main__":
    raise SystemExit(start())
