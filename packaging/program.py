"""The frozen program's entry: the same as `python -m evprof`, with the CUDA add-on's torch where one is installed."""

import sys

from evprof.cli.doctor.cuda import bundle_folder, packages_folder

# Before anything imports torch: the first folder that holds a package is the one it comes from.
if (bundle := bundle_folder()) is not None and (packages := packages_folder(bundle)) is not None:
    sys.path.insert(0, str(packages))

from evprof.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
