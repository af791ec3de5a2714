#!/usr/bin/env bash
# Makes a virtual environment with this package in it.
#   scripts/venv.sh FOLDER EXTRAS CONSTRAINTS [requirement ...]
# It is of the newest Python on the PATH, or of the one that PYTHON names. A stamp file marks a complete set-up,
# which is not done again until the project's files or that Python change.
set -euo pipefail

folder=$1 extras=$2 constraints=$3
shift 3
python=$("$(dirname "$0")/python.sh")
version=$("$python" --version)
stamp=$folder/.complete-$extras
wanted=$(cat pyproject.toml "$constraints" | cksum; echo "$extras $* $version")
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0

echo "Setting up $folder with $version (takes a minute)"
if [ -f "$folder/pyvenv.cfg" ] && [ "$("$folder/bin/python" --version 2>/dev/null)" != "$version" ]; then
  rm -rf "$folder"
fi
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" ||
  { rm -rf "$folder"; echo "Please install the package python3-venv, or choose another Python:" \
    "make PYTHON=/path/to/python" >&2; exit 1; }
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -c "$constraints" -e ".[$extras]" "$@"
echo "$wanted" > "$stamp"
