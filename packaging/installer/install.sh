#!/bin/sh
# Installs, upgrades or removes evprof @VERSION@. Everything it needs is in this file but sh, tar and common tools.
set -eu

VERSION=@VERSION@
CHECKSUM=@CHECKSUM@
PAYLOAD_BYTES=@PAYLOAD_BYTES@
DECOMPRESSOR_BYTES=@DECOMPRESSOR_BYTES@
INSTALLED_KB=@INSTALLED_KB@
FILES=@FILES@
HEAD_BYTES=@HEAD_BYTES@

usage() {
  cat <<TEXT
Usage: sh evprof-$VERSION.run [--prefix DIR] [--quiet]     install, or upgrade what is installed
       sh evprof-$VERSION.run --uninstall [--prefix DIR]   remove; sessions and settings stay
       sh evprof-$VERSION.run --check                      only check that this file is complete

Without --prefix:
  as root              program in /opt/evprof, commands in /usr/local/bin
  as an ordinary user  program in ~/.local/lib/evprof, commands in ~/.local/bin
With --prefix DIR: program in DIR/lib/evprof, commands in DIR/bin, desktop files in DIR/share.
Needs no network, and no Python on this machine.
TEXT
}

say() { [ -n "$quiet" ] || printf '%s\n' "$*"; }
fail() { printf 'evprof: %s\n' "$*" >&2; exit 1; }

action=install prefix= quiet=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) [ $# -gt 1 ] || fail "--prefix needs a folder; see --help."; prefix=$2; shift ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    --check) action=check ;;
    --quiet) quiet=yes ;;
    --help | -h) usage; exit 0 ;;
    *) fail "there is no option '$1'; see --help." ;;
  esac
  shift
done

# --- where ---------------------------------------------------------------------------------------------------------
if [ -n "$prefix" ]; then
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  program=$prefix/lib/evprof bin=$prefix/bin share=$prefix/share
elif [ "$(id -u)" = 0 ]; then
  program=/opt/evprof bin=/usr/local/bin share=/usr/local/share
else
  [ -n "${HOME:-}" ] || fail "HOME is not set; name a folder with --prefix DIR."
  program=$HOME/.local/lib/evprof bin=$HOME/.local/bin share=${XDG_DATA_HOME:-$HOME/.local/share}
fi
case $program$bin$share in *'
'*) fail "a folder's name with a line break in it cannot be used; choose another with --prefix DIR." ;; esac
list=$program/installed-files.txt

refresh_desktop() {
  for tool in update-mime-database:mime update-desktop-database:applications gtk-update-icon-cache:icons/hicolor; do
    name=${tool%%:*} folder=$share/${tool#*:} options=
    [ "$name" != gtk-update-icon-cache ] || options=-qtf
    if command -v "$name" >/dev/null 2>&1 && [ -d "$folder" ]; then
      "$name" $options "$folder" >/dev/null 2>&1 || :
    fi
  done
}

remove_outer_files() {
  # Those outside the program's folder that the last installation wrote down, and folders that are empty then.
  [ -f "$list" ] || return 0
  while IFS= read -r file; do
    if [ -n "$file" ]; then
      rm -f -- "$file"
      remove_empty_folders "$(dirname "$file")"
    fi
  done <"$list"
}

remove_empty_folders() {
  folder=$1
  while [ "$folder" != "$share" ] && [ "$folder" != "$bin" ] && rmdir -- "$folder" 2>/dev/null; do
    folder=$(dirname "$folder")
  done
}

remove_lists() {
  # What the desktop's tools made of files of which none is left.
  if [ ! -d "$share/mime/packages" ]; then rm -rf -- "$share/mime"; fi
  ls "$share"/applications/*.desktop >/dev/null 2>&1 || rm -f -- "$share/applications/mimeinfo.cache"
  ls -d "$share"/icons/hicolor/*/ >/dev/null 2>&1 || rm -f -- "$share/icons/hicolor/icon-theme.cache"
  for folder in "$share/applications" "$share/icons/hicolor"; do remove_empty_folders "$folder"; done
}

running() {
  # The numbers of processes that run from the program's folder.
  for entry in /proc/[0-9]*/exe; do
    target=$(readlink "$entry" 2>/dev/null) || continue
    case $target in "$program"/*) number=${entry#/proc/}; printf '%s ' "${number%/exe}" ;; esac
  done
}

# --- uninstall -----------------------------------------------------------------------------------------------------
if [ "$action" = uninstall ]; then
  [ -d "$program" ] || fail "evprof is not installed in $program."
  [ -f "$list" ] || fail "$program was not installed by this installer; remove it the way it came."
  processes=$(running)
  [ -z "$processes" ] || fail "evprof is running (process ${processes% }); close it first."
  remove_outer_files
  remove_lists
  refresh_desktop
  rm -rf -- "$program" "$program.old"
  # The system's own folders stay, empty or not.
  [ "$program" = /opt/evprof ] || rmdir -- "$bin" "$share" "${program%/evprof}" "${bin%/bin}" 2>/dev/null || :
  say "evprof is removed. Sessions and settings of its users are kept, in each one's home:"
  say "  ~/.local/share/evprof  sessions        ~/.config/evprof        settings"
  say "  ~/.local/state/evprof  reports         ~/.cache/evprof         can be deleted at any time"
  exit 0
fi

# --- check the file ------------------------------------------------------------------------------------------------
self=$0
[ "$HEAD_BYTES" -gt 0 ] || fail "this is only the uninstaller; use --uninstall."
payload() { tail -c "+$((HEAD_BYTES + DECOMPRESSOR_BYTES + 1))" "$self"; }
expected=$((HEAD_BYTES + DECOMPRESSOR_BYTES + PAYLOAD_BYTES))
size=$(wc -c <"$self")
[ "$size" -eq "$expected" ] || fail "this file is incomplete: $((size)) of $expected bytes; copy or download it again."
say "Checking the file"
sum=$(tail -c "+$((HEAD_BYTES + 1))" "$self" | sha256sum) || fail "sha256sum is missing; install coreutils."
[ "${sum%% *}" = "$CHECKSUM" ] || fail "this file is damaged (its checksum is wrong); copy or download it again."
if [ "$action" = check ]; then say "The file is complete and undamaged."; exit 0; fi

# --- check the place -----------------------------------------------------------------------------------------------
if [ "$program" = /opt/evprof ] && [ -f /var/lib/dpkg/info/evprof.list ]; then
  fail "evprof is installed as a Debian package; upgrade it with the .deb, or remove that first (apt remove evprof)."
fi
if [ -e "$program" ] && [ ! -f "$list" ]; then
  fail "$program is there and was not installed by this installer; move it away, or choose another --prefix."
fi
# A first attempt may have been ended between taking the old version away and putting the new one in its place.
if [ ! -e "$program" ] && [ -d "$program.old" ]; then mv -- "$program.old" "$program"; fi
parent=$(dirname "$program")
mkdir -p -- "$parent" "$bin" "$share" 2>/dev/null && [ -w "$parent" ] && [ -w "$bin" ] && [ -w "$share" ] ||
  fail "$parent, $bin and $share must be writable; run this as root, or name a folder of yours with --prefix DIR."
free=$(df -Pk "$parent" | { read -r _; read -r _ _ _ free _; echo "$free"; })
needed=$((INSTALLED_KB + INSTALLED_KB / 20 + 1024))
[ "$free" -ge "$needed" ] ||
  fail "$parent has $((free * 1024 / 1000000)) MB free, and $((needed * 1024 / 1000000)) MB are needed; free some, or choose another --prefix."
processes=$(running)
[ -z "$processes" ] ||
  say "evprof is running (process ${processes% }): close it and start it again after this; until then it is a mixture."

# --- unpack beside what is there -----------------------------------------------------------------------------------
new=$program.new.$$
tools=$parent/.evprof-tools.$$
clean() { rm -rf -- "$new" "$tools"; }
trap 'clean' EXIT
trap 'echo "evprof: stopped; what was installed before is unchanged." >&2; exit 130' INT TERM HUP
mkdir -- "$new"
decompress() { xz -dc; }
if ! command -v xz >/dev/null 2>&1; then
  mkdir -- "$tools"
  tail -c "+$((HEAD_BYTES + 1))" "$self" | head -c "$DECOMPRESSOR_BYTES" | gzip -dc | tar -xf - -C "$tools"
  decompress() { LD_LIBRARY_PATH=$tools "$tools/xz" -dc; }
fi
say "Unpacking evprof $VERSION into $program ($((INSTALLED_KB * 1024 / 1000000)) MB)"
(payload | decompress | tar -xf - -C "$new" --strip-components=3 ./opt/evprof) &
unpacking=$!
trap 'kill $unpacking 2>/dev/null || :; wait $unpacking 2>/dev/null || :; echo "evprof: stopped; what was installed before is unchanged." >&2; exit 130' INT TERM HUP
told=0
while kill -0 $unpacking 2>/dev/null; do
  sleep 1
  done_kb=$(du -sk "$new" 2>/dev/null | { read -r kb _; echo "${kb:-0}"; })
  percent=$((done_kb * 100 / INSTALLED_KB))
  [ "$percent" -le 99 ] || percent=99
  if [ -t 1 ] && [ -z "$quiet" ]; then
    printf '\r%3d %%' "$percent"
  elif [ $((percent / 25)) -gt $((told / 25)) ]; then
    say "$percent %"
    told=$percent
  fi
done
if [ -t 1 ] && [ -z "$quiet" ]; then printf '\r'; fi
wait $unpacking || fail "unpacking failed; what was installed before is unchanged."
count=$(find "$new" -type f | wc -l)
[ "$((count))" -eq "$FILES" ] || fail "unpacking gave $((count)) of $FILES files; what was installed before is unchanged."
say "100 %"

# --- the files outside the program's folder ------------------------------------------------------------------------
{
  printf '%s\n' "$bin/evprof" "$bin/evprof-window"
  (cd "$new/share" && find . -type f) | sort | while IFS= read -r file; do printf '%s\n' "$share/${file#./}"; done
} >"$new/installed-files.txt"
{ head -c "$HEAD_BYTES" "$self" | sed 's/^HEAD_BYTES=.*/HEAD_BYTES=0/'; } >"$new/uninstall.sh"
chmod -R go+rX,go-w "$new"

# --- put the new version in place of the old: from here on nothing is stopped half way ------------------------------
trap '' INT TERM HUP
remove_outer_files
rm -rf -- "$program.old"
was=
if [ -e "$program" ]; then
  was=$(cat "$program/VERSION" 2>/dev/null || echo "an older version")
  mv -- "$program" "$program.old"
fi
mv -- "$new" "$program"
# The CUDA add-on, which is told by the program if it belongs to another version.
if [ -d "$program.old/cuda" ]; then mv -- "$program.old/cuda" "$program/cuda"; fi
rm -rf -- "$program.old"

ln -sf "$program/evprof" "$bin/evprof"
ln -sf "$program/evprof-window" "$bin/evprof-window"
(cd "$program/share" && find . -type f) | while IFS= read -r file; do
  mkdir -p -- "$share/$(dirname "$file")"
  cp -- "$program/share/$file" "$share/$file"
done
# The desktop starts programs without a shell: the whole path, in quotes, with the characters it reads itself escaped.
quoted=$(printf '%s' "$program" | sed -e 's/\\/\\\\\\\\/g' -e 's/["`$]/\\\\&/g' -e 's/%/%%/g' -e 's/[&|\\]/\\&/g')
sed "s|^Exec=[^ ]*|Exec=\"$quoted/evprof-window\"|" "$program/share/applications/evprof.desktop" \
  >"$share/applications/evprof.desktop"
refresh_desktop

if [ -n "$was" ] && [ "$was" != "$VERSION" ]; then say "Upgraded from $was; sessions and settings are as they were."; fi
say "evprof $VERSION is installed. Start it:  evprof      Remove it:  sh \"$program/uninstall.sh\" --uninstall${prefix:+ --prefix \"$prefix\"}"
case :$PATH: in
  *:"$bin":*) ;;
  *) say "$bin is not in your PATH: start $bin/evprof, or log in again if your system adds it then." ;;
esac
exit 0
