#!/usr/bin/env bash
# Builds a wheel of PyAV with an FFmpeg under the LGPL: the one in PyAV's own wheel holds x264 and x265, which are under
# the GPL. Everything FFmpeg itself decodes is in it; of encoders what evprof writes with. Nothing is built twice.
#
# Usage: packaging/ffmpeg/build.sh FOLDER [PYTHON]     the wheel is put in FOLDER and its path printed last
# EVPROF_SOURCES: a folder that holds the sources listed below, for machines without a network.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
python=$(command -v "${2:-$here/../../.venv/bin/python}") || { echo "There is no Python to build with; run make setup, or name one." >&2; exit 1; }

# shellcheck source=packaging/ffmpeg/versions
. "$here/versions"

wheel_pattern="av-$PYAV_VERSION+lgpl-*-abi3-*.whl"  # one for every Python from 3.11 on
fingerprint=$(grep -v '^PYAV\|^#' "$here/versions" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/evprof-build/ffmpeg-$fingerprint
say() { echo "$*" >&2; }
finish() {
  cp "$cache/wheels/"$wheel_pattern "$out/"
  ls "$out/"$wheel_pattern
}
if compgen -G "$cache/wheels/$wheel_pattern" >/dev/null; then finish; exit; fi
mkdir -p "$cache/wheels" "$cache/sources"
work=$cache/work
jobs=$(nproc)

# The Debian archive keeps the sources as their authors signed them; a private list is asked, the machine's stays as it is.
apt_private() {
  local lists=$cache/apt
  mkdir -p "$lists/lists/partial" "$lists/archives/partial"
  if [ ! -f "$lists/sources.list" ]; then
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
      grep -v '^ *#' | grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1 | tr -d ' ' || true)
    [ -n "$mirror" ] || { say "No Debian mirror is configured here: put the sources in a folder and name it in EVPROF_SOURCES."; exit 1; }
    printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" sid "$mirror" trixie >"$lists/sources.list"
  fi
  "$@" -o "Dir::Etc::sourcelist=$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User="$(id -un)" \
    -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists" -o "Dir::Cache::archives=$lists/archives"
}

# source_file NAME SHA256 DEBIAN-PACKAGE=VERSION
source_file() {
  local file=$cache/sources/$1
  if [ ! -f "$file" ] && [ -n "${EVPROF_SOURCES:-}" ] && [ -f "$EVPROF_SOURCES/$1" ]; then cp "$EVPROF_SOURCES/$1" "$file"; fi
  if [ ! -f "$file" ]; then
    say "Fetching the source of ${3%%=*}"
    [ -f "$cache/apt/updated" ] || { apt_private apt-get -qq update >&2; touch "$cache/apt/updated"; }
    (cd "$cache/sources" && apt_private apt-get -qq source --download-only "$3" >&2)
  fi
  echo "$2  $file" | sha256sum --check --quiet >&2 || { rm -f "$file"; say "$1 is not the file that was looked at: its hash differs."; exit 1; }
}

source_file "ffmpeg_$FFMPEG_VERSION.orig.tar.xz" "$FFMPEG_SHA256" "ffmpeg=$FFMPEG_DEBIAN"
source_file "dav1d_$DAV1D_VERSION.orig.tar.xz" "$DAV1D_SHA256" "dav1d=$DAV1D_DEBIAN"

rm -rf "$work"
mkdir -p "$work"
"$python" -m venv "$work/tools"
tools=$work/tools/bin
say "Fetching the tools of the build"
"$tools/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$here/tools.txt" >&2
if ! command -v nasm >/dev/null; then  # unpacked beside the build: nobody has to be root for it
  (cd "$work" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download nasm >&2 && dpkg -x nasm_*.deb nasm) ||
    { say "The assembler nasm is needed: sudo apt-get install nasm"; exit 1; }
fi
export PATH=$tools:$work/nasm/usr/bin:$PATH
prefix=$cache/prefix
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

if [ ! -f "$prefix/built" ]; then
  say "Building dav1d $DAV1D_VERSION"
  tar -C "$work" -xf "$cache/sources/dav1d_$DAV1D_VERSION.orig.tar.xz"
  meson setup "$work/dav1d" "$work/dav1d-$DAV1D_VERSION" --prefix "$prefix" --libdir lib --buildtype release \
    --default-library static -Denable_tools=false -Denable_tests=false >"$work/dav1d.log"
  ninja -C "$work/dav1d" install >>"$work/dav1d.log"

  say "Building FFmpeg $FFMPEG_VERSION (some minutes)"
  tar -C "$work" -xf "$cache/sources/ffmpeg_$FFMPEG_VERSION.orig.tar.xz"
  cd "$work/ffmpeg-$FFMPEG_VERSION"
  # shellcheck disable=SC2086
  ./configure --prefix="$prefix" $CONFIGURE >"$work/configure.log"
  grep -q '^License: LGPL version 2.1 or later' "$work/configure.log" || { say "This FFmpeg would not be under the LGPL."; exit 1; }
  cp "$work/configure.log" "$cache/configure.log"
  make -j"$jobs" >"$work/make.log" 2>&1 || { tail -20 "$work/make.log" >&2; exit 1; }
  make install >>"$work/make.log" 2>&1
  touch "$prefix/built"
fi

say "Building PyAV $PYAV_VERSION (some minutes)"
cd "$work"
"$tools/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-binary av \
  --require-hashes -r <(echo "av==$PYAV_VERSION --hash=sha256:$PYAV_SHA256") >&2
tar -xf "av-$PYAV_VERSION.tar.gz"
cd "av-$PYAV_VERSION"
# Another version than the wheel everybody else has, so that nobody takes one for the other.
sed -i "s/^__version__ = .*/__version__ = \"$PYAV_VERSION+lgpl\"/" av/about.py
CFLAGS="-O2 -g0" LDFLAGS="-Wl,-s -Wl,-rpath-link,$prefix/lib" MAKEFLAGS="-j$jobs" \
  "$tools/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$work/raw" . >&2
LD_LIBRARY_PATH=$prefix/lib "$tools/python" -m auditwheel repair -w "$cache/wheels" "$work/raw/"av-*.whl 2>"$work/repair.log" >&2 ||
  { tail -20 "$work/repair.log" >&2; exit 1; }

PYTHONPATH= "$tools/python" -m pip install --quiet --disable-pip-version-check --no-deps "$cache/wheels/"$wheel_pattern >&2
"$tools/python" "$here/check.py" || { rm -f "$cache/wheels/"$wheel_pattern; exit 1; }
rm -rf "$work"
finish
