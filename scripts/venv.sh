#!/usr/bin/env bash
# Makes a virtual environment with this package in it.
#   scripts/venv.sh FOLDER EXTRAS CONSTRAINTS [requirement ...]
# A stamp file marks a complete set-up, which is not done again until the project's files change.
set -euo pipefail

folder=$1 extras=$2 constraints=$3
shift 3
stamp=$folder/.complete-$extras
wanted=$(cat pyproject.toml "$constraints" | cksum; echo "$extras $*")
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0

python=
for candidate in ${PYTHON:-python3 python3.12 python3.11}; do
  # labmaze has wheels up to Python 3.12.
  if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] ||
  { echo "Python 3.11 or 3.12 is needed; choose one with: make PYTHON=/path/to/python" >&2; exit 1; }

echo "Setting up $folder with $("$python" --version) (takes a minute)"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" ||
  { rm -rf "$folder"; echo "Please install the package python3-venv." >&2; exit 1; }
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" -e ".[$extras]" "$@"
echo "$wanted" > "$stamp"
