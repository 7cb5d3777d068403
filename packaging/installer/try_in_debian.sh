#!/usr/bin/env bash
# Tries the installers where nothing else is: in a clean Debian root, without Python and without a network.
#
# Usage (as root): packaging/installer/try_in_debian.sh ROOT.tar.zst INSTALLERS [OLDER]
#   ROOT.tar.zst  what debootstrap --variant=minbase made      INSTALLERS  the folder with the .deb and the .run
#   OLDER         a folder with installers of a lower version, to be upgraded from
# Prints a transcript with times and sizes; ends with 1 when a step fails.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '4,7s/^# //p' "$0" >&2; exit 2; }
archive=$(realpath "$1") installers=$(realpath "$2") older=${3:+$(realpath "$3")}
work=${WORK:-$(mktemp -d)}
root=$work/root
failed=0

say() { printf '\n=== %s\n' "$*"; }
inside() { unshare -n chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME="${as_home:-/root}" TERM=dumb LC_ALL=C.UTF-8 "$@"; }
# One command in the root, with how long it took; a failure is told and counted.
step() {
  printf '\n$ %s\n' "$*"
  local begun=$EPOCHREALTIME
  inside "$@" 2>&1 | tail -n "${lines:-12}"
  local code=${PIPESTATUS[0]}
  printf '[%s s, left with %d]\n' "$(echo "$EPOCHREALTIME $begun" | awk '{printf "%.1f", $1 - $2}')" "$code"
  if [ "$code" -ne "${expected:-0}" ]; then echo "FAILED: $*"; failed=1; fi
}
fresh() {
  cleanup
  mkdir -p "$root"
  tar --zstd -xf "$archive" -C "$root" --strip-components="${STRIP:-0}"
  mkdir -p "$root/proc" "$root/dev" "$root/installers" "$root/older"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mount --bind "$installers" "$root/installers"
  if [ -n "$older" ]; then mount --bind "$older" "$root/older"; fi
  say "$(. "$root/etc/os-release" && echo "$PRETTY_NAME"), $(du -sm --exclude=proc --exclude=dev --exclude=installers --exclude=older "$root" | cut -f1) MB"
  for program in python3 python xz zstd; do
    if [ -n "$(chroot "$root" sh -c "command -v $program")" ]; then echo "$program is there"; else echo "no $program"; fi
  done
  find "$root" -xdev \( -path "$root/proc" -o -path "$root/dev" \) -prune -o -print | sort >"$work/before"
}
cleanup() {
  for place in proc dev installers older; do
    while mountpoint -q "$root/$place" 2>/dev/null; do umount -l "$root/$place"; done
  done
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
left() {
  say "What is left that was not there before"
  find "$root" -xdev \( -path "$root/proc" -o -path "$root/dev" \) -prune -o -print | sort |
    comm -13 "$work/before" - | sed "s|^$root||" | grep -vE '^/(var/lib/dpkg|var/cache|var/log|tmp)' | head -n 40
}
use() {
  say "The program, ${1:-as root}"
  lines=3 step evprof --version
  lines=8 step evprof demo --headless -o /tmp/demo.evprof
  step evprof gui /tmp/demo.evprof --screenshot /tmp/window.png
  lines=4 step evprof run --mode draft --max-new-tokens 8 --torch-trace /tmp/traces -o /tmp/traced.evprof
  step evprof export /tmp/traced.evprof --format chrome -o /tmp/trace.json
  lines=6 step evprof show /tmp/demo.evprof
  lines=40 step evprof doctor
  ls -l "$root/tmp" | awk '{print $5, $9}'
  cp "$root/tmp/window.png" "$work/window-$(basename "$archive" .tar.zst).png" 2>/dev/null || :
  rm -rf "$root"/tmp/*
}

fresh
deb=$(basename "$(ls "$installers"/*.deb | tail -1)") run=$(basename "$(ls "$installers"/*.run | tail -1)")
ls -l "$installers" | awk '{print $5, $9}'
if [ -n "$older" ]; then
  say "The .deb of an older version, a session, then the upgrade"
  step dpkg -i "/older/$(basename "$(ls "$older"/*.deb)")"
  lines=2 step evprof run --mode draft --max-new-tokens 4 -o /root/mine.evprof
fi
say "The .deb"
step dpkg -i "/installers/$deb"
echo "installed: $(du -sm "$root/opt/evprof" | cut -f1) MB"
use
if [ -n "$older" ]; then lines=3 step evprof show /root/mine.evprof; fi
step dpkg --purge evprof
left

fresh
say "The .run as root"
if [ -n "$older" ]; then step sh "/older/$(basename "$(ls "$older"/*.run)")"; fi
step sh "/installers/$run"
lines=8 step evprof demo --headless -o /tmp/demo.evprof
step evprof gui /tmp/demo.evprof --screenshot /tmp/window.png
rm -rf "$root"/tmp/*
step sh /opt/evprof/uninstall.sh --uninstall
left

say "The .run as an ordinary user"
inside useradd -m student
find "$root" -xdev \( -path "$root/proc" -o -path "$root/dev" \) -prune -o -print | sort >"$work/before"
student() { as_home=/home/student step setpriv --reuid student --regid student --clear-groups "$@"; }
student sh "/installers/$run"
lines=6 student /home/student/.local/bin/evprof demo --headless -o /home/student/demo.evprof
student /home/student/.local/bin/evprof gui /home/student/demo.evprof --screenshot /home/student/window.png
student sh /home/student/.local/lib/evprof/uninstall.sh --uninstall
left
say "$([ $failed = 0 ] && echo "Everything passed" || echo "Something FAILED")"
exit $failed
