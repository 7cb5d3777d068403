#!/usr/bin/env bash
# Makes .venv ready: a Python, the system libraries Qt needs, and the packages of constraints.txt.
# Does nothing when everything is in place. Usage: packaging/setup.sh [extra ...]   (default: dev)
set -euo pipefail
cd "$(dirname "$0")/.."
extras="${*:-dev}"

# Shared libraries that Qt's platform plugins load and the wheels do not carry, with the Debian packages holding them.
libraries=(
  libEGL.so.1:libegl1 libGL.so.1:libgl1 libxkbcommon.so.0:libxkbcommon0 libxkbcommon-x11.so.0:libxkbcommon-x11-0
  libdbus-1.so.3:libdbus-1-3 libfontconfig.so.1:libfontconfig1 libglib-2.0.so.0:libglib2.0-0
  libxcb-cursor.so.0:libxcb-cursor0 libxcb-icccm.so.4:libxcb-icccm4 libxcb-image.so.0:libxcb-image0
  libxcb-keysyms.so.1:libxcb-keysyms1 libxcb-render-util.so.0:libxcb-render-util0 libxcb-shape.so.0:libxcb-shape0
)

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
can_install() { command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }

install_debian() {
  if can_install; then
    as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "Please run this once, then repeat:  sudo apt-get install $*" >&2
    return 1
  fi
}

find_python() {
  for name in python3.13 python3.12 python3.11 python3; do
    if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

if [ "$(uname -s)" = Linux ]; then
  known=$( (ldconfig -p 2>/dev/null || /sbin/ldconfig -p) | awk '{print $1}')
  missing=()
  for pair in "${libraries[@]}"; do
    grep -qx "${pair%%:*}" <<<"$known" || missing+=("${pair##*:}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    echo "Installing the system libraries Qt needs: ${missing[*]}"
    install_debian "${missing[@]}"
  fi
fi

stamp=.venv/ready
fingerprint=$(cat pyproject.toml constraints.txt packaging/setup.sh | cksum; echo "$extras")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ]; then
  exit 0
fi

python=$(find_python) || { install_debian python3 python3-venv && python=$(find_python); } || {
  echo "evprof needs Python 3.11, 3.12 or 3.13; none was found." >&2
  exit 1
}
# Compiled decode steps need a C++ compiler and Python's headers; without them they run eagerly, and their tests fail.
if [ "$(uname -s)" = Linux ] && [[ " $extras " == *" dev "* ]]; then
  tools=()
  command -v g++ >/dev/null || tools+=(g++)
  "$python" -c 'import pathlib, sysconfig, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())' ||
    tools+=("$("$python" -c 'import sys; print("python%d.%d-dev" % sys.version_info[:2])')")
  if [ "${#tools[@]}" -gt 0 ]; then
    echo "Installing what compiled decode steps need: ${tools[*]}"
    install_debian "${tools[@]}"
  fi
fi

if [ ! -x .venv/bin/pip ]; then
  echo "Creating .venv with $("$python" --version)"
  if ! "$python" -m venv .venv 2>/dev/null; then
    rm -rf .venv
    install_debian python3-venv
    "$python" -m venv .venv
  fi
fi
echo "Installing packages (the first time takes a few minutes)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[${extras// /,}]"
printf '%s\n' "$fingerprint" >"$stamp"
