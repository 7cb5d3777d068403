#!/usr/bin/env bash
# Freezes evprof into a folder of two programs: packaging/frozen/build.sh [DIST [WORK]]   (default: dist and build)
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=${1:-dist} work=${2:-build}
python=${EVPROF_PYTHON:-.venv/bin/python}
# Python reads its own lists of folders in the encoding of the locale: in ASCII it does not even start below a folder
# with an accent.
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
  *[Uu][Tt][Ff]8* | *[Uu][Tt][Ff]-8*) ;;
  *) export LC_ALL=C.UTF-8 ;;
esac
export PYTHONHASHSEED=0
# Modules lie in the programs as they are: the installers pack them half as large as packed one by one (35 MB less).
export PYINSTALLER_ZLIB_COMPRESSION_LEVEL=0
mkdir -p "$work/evprof"
echo "Freezing evprof (5 to 15 minutes; the log is $work/log.txt)"
"$python" -m PyInstaller --noconfirm --distpath "$dist" --workpath "$work" packaging/evprof.spec >"$work/log.txt" 2>&1 || {
  tail -n 20 "$work/log.txt" >&2
  exit 1
}
echo "$dist/evprof"
