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

python=${PYTHON:-}
if [ -z "$python" ]; then
  # labmaze has wheels up to Python 3.12.
  for python in python3.12 python3.11 python3; do command -v "$python" >/dev/null && break; done
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "Python 3.11 or newer is needed; choose one with: make PYTHON=/path/to/python" >&2; exit 1; }

echo "Setting up $folder with $("$python" --version) (takes a minute)"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder" ||
  { rm -rf "$folder"; echo "Please install the package python3-venv." >&2; exit 1; }
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" -e ".[$extras]" "$@"
echo "$wanted" > "$stamp"
