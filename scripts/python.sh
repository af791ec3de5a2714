#!/usr/bin/env bash
# Prints the newest Python here that this package runs on, or says what was looked for.
#   scripts/python.sh          the one that PYTHON names, or the newest on the PATH
#   scripts/python.sh any      also one that only pyenv knows
set -euo pipefail

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; }

if [ -n "${PYTHON:-}" ]; then
  supported "$PYTHON" && { echo "$PYTHON"; exit 0; }
  echo "$PYTHON is no Python from 3.11 to 3.14: choose another with make PYTHON=/path/to/python" >&2
  exit 1
fi
for version in 3.14 3.13 3.12 3.11; do
  found=(python$version)
  [ "${1:-}" != any ] || found+=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/$version.*/bin/python)
  for candidate in "${found[@]}"; do
    if supported "$candidate"; then echo "$candidate"; exit 0; fi
  done
done
if supported python3; then echo python3; exit 0; fi
echo "A Python from 3.11 to 3.14 is needed: there is no python3.14, python3.13, python3.12 or python3.11 on the" \
  "PATH, and python3 is $(python3 --version 2>/dev/null || echo missing). Install one, or choose one with:" \
  "make PYTHON=/path/to/python" >&2
exit 1
