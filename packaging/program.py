"""The frozen program's entry: the same as `python -m evprof`."""

from evprof.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
