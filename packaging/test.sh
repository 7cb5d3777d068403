#!/usr/bin/env bash
# Runs each of the given targets of the Makefile, says in the end which passed, and fails when one did not.
set -uo pipefail
cd "$(dirname "$0")/.."
results=()
code=0
for part in "$@"; do
  if "${MAKE:-make}" --no-print-directory "$part"; then
    results+=("passed  $part")
  else
    results+=("FAILED  $part")
    code=1
  fi
done
printf '%s\n' "${results[@]}"
exit "$code"
