#!/usr/bin/env bash
# Makes .venv ready: a Python, the system libraries Qt needs, and the packages of constraints.txt.
# Does nothing when everything is in place. Usage: packaging/setup.sh [extra ...]
# No extra: what running evprof takes. dev: what testing it takes, too. frozen: what installers are made with.
set -euo pipefail
export LC_ALL="${LC_ALL:-C.UTF-8}"
cd "$(dirname "$0")/.."
extras="$*"
stamp=.venv/ready

fail() { echo "$*" >&2; exit 1; }

# What .venv was made from and holds, as far as names of folders tell: packages removed since make it another.
state() {
  { cat pyproject.toml constraints.txt packaging/setup.sh packaging/install_packages.py; pwd
    printf '%s\n' .venv/lib/python3*/site-packages/*.dist-info; } | cksum
}

# The stamp: first the extras that are installed, then the state after that.
made="" kept=""
{ read -r made && read -r kept; } 2>/dev/null <"$stamp" || true
[[ "$made" =~ ^[a-z\ ]*$ ]] || made=""
is_ready() {
  [ -n "$kept" ] && [ "$kept" = "$(state)" ] || return 1
  for extra in $extras; do [[ " $made " == *" $extra "* ]] || return 1; done
}

# Shared libraries that Qt's platform plugins load and the wheels do not carry, with the Debian packages holding them.
libraries=(
  libEGL.so.1:libegl1 libGL.so.1:libgl1 libxkbcommon.so.0:libxkbcommon0 libxkbcommon-x11.so.0:libxkbcommon-x11-0
  libdbus-1.so.3:libdbus-1-3 libfontconfig.so.1:libfontconfig1 libglib-2.0.so.0:libglib2.0-0
  libxcb-cursor.so.0:libxcb-cursor0 libxcb-icccm.so.4:libxcb-icccm4 libxcb-image.so.0:libxcb-image0
  libxcb-keysyms.so.1:libxcb-keysyms1 libxcb-render-util.so.0:libxcb-render-util0 libxcb-shape.so.0:libxcb-shape0
  libwayland-cursor.so.0:libwayland-cursor0
)

# Those that come along in the frozen program, and the programs that pack it.
frozen_libraries=(
  libgcc_s.so.1:libgcc-s1 libstdc++.so.6:libstdc++6 libmd.so.0:libmd0 libbsd.so.0:libbsd0 libXau.so.6:libxau6
  libXdmcp.so.6:libxdmcp6 libxcb.so.1:libxcb1 libGLdispatch.so.0:libglvnd0 libGLX.so.0:libglx0
  libOpenGL.so.0:libopengl0 libwayland-client.so.0:libwayland-client0
  libwayland-egl.so.1:libwayland-egl1 libdrm.so.2:libdrm2
)
frozen_programs=(strip:binutils zstd:zstd pkg-config:pkg-config)

find_python() {
  for name in python3.13 python3.12 python3.11 python3; do
    if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# Everything of the system that is missing, found before anything is installed: names of Debian packages in `packages`,
# and in `things` what a person off Debian looks for.
packages=() things=()
lacks() { packages+=("$1"); things+=("$2"); }

lacks_programs() {
  for pair in "$@"; do command -v "${pair%%:*}" >/dev/null || lacks "${pair##*:}" "${pair%%:*}"; done
}

look_around() {
  packages=() things=()
  if python=$(find_python); then
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
      lacks "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" "Python's venv module"
  else
    python=""
    lacks python3 "Python 3.11, 3.12 or 3.13"
    lacks python3-venv "its venv module"
  fi
  [ "$(uname -s)" = Linux ] || return 0
  local known wanted=("${libraries[@]}")
  if [[ " $extras " == *" frozen "* ]]; then
    wanted+=("${frozen_libraries[@]}")
    lacks_programs "${frozen_programs[@]}"
  fi
  known=$( (ldconfig -p 2>/dev/null || /sbin/ldconfig -p 2>/dev/null || true) | awk '{print $1}')
  if [ -n "$known" ]; then
    for pair in "${wanted[@]}"; do
      grep -qx "${pair%%:*}" <<<"$known" || lacks "${pair##*:}" "${pair%%:*}"
    done
  fi
  # Compiled decode steps need a C++ compiler and Python's headers: without them they run eagerly, and their tests fail.
  [[ " $extras " == *" dev "* ]] || return 0
  command -v g++ >/dev/null || lacks g++ "a C++ compiler"
  # Tests make a release and a package.
  lacks_programs git:git xz:xz-utils
  if [ -z "$python" ]; then
    lacks python3-dev "Python's headers"
  elif ! "$python" -c 'import pathlib, sysconfig, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())'; then
    lacks "$("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')" "Python's headers"
  fi
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

list() { printf '%s' "$1"; shift; printf '; %s' "$@"; }

install_system() {
  command -v apt-get >/dev/null ||
    fail "evprof needs, on this system: $(list "${things[@]}"). Install them with its package manager, then repeat."
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    fail "Some system packages are missing. Run this once, then repeat:  sudo apt-get install ${packages[*]}"
  fi
  echo "Installing system packages: ${packages[*]}"
  local log
  log=$(mktemp)
  { as_root apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 || {
    cat "$log" >&2
    fail "The system packages could not be installed. Check the network, or run by hand:  apt-get install ${packages[*]}"
  }
  rm -f "$log"
}

is_ready && exit 0
for extra in $made; do [[ " $extras " == *" $extra "* ]] || extras="$extras $extra"; done
began=$SECONDS
[ -w . ] || fail "$(pwd) cannot be written by this user; copy evprof to a folder of yours, or change the folder's owner."
look_around
if [ "${#packages[@]}" -gt 0 ]; then
  install_system
  look_around
  [ -n "$python" ] || fail "evprof needs Python 3.11, 3.12 or 3.13, and this system offers another: $(python3 --version 2>&1)."
fi

# A folder that was moved, or whose making was interrupted, or whose Python is gone.
if ! { .venv/bin/python -c 'import pip' && [ "$(cat .venv/place 2>/dev/null)" = "$(pwd)" ]; } 2>/dev/null; then
  echo "Creating .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv || fail "The environment could not be made with $python; see above."
  pwd >.venv/place
fi
# shellcheck disable=SC2086
.venv/bin/python packaging/install_packages.py $extras
printf '%s\n%s\n' "$extras" "$(state)" >"$stamp"
echo "evprof is set up ($((SECONDS - began)) s)"
