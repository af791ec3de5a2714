#!/usr/bin/env bash
# Makes sure that OpenGL can draw MuJoCo's pictures without a screen, for the tests, and that there is what else they use:
# installs what is missing where it may, names it where it may not.
#   scripts/system.sh [extra package ...]
set -euo pipefail

missing=()
has() { ldconfig -p 2>/dev/null | grep -q "$1"; }
has libEGL.so.1 && { has libEGL_mesa.so || has libEGL_nvidia.so; } || missing+=(libegl1 libegl-mesa0)
has libGL.so.1 || missing+=(libgl1)
has libOSMesa.so || missing+=(libosmesa6)
for package in "$@"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
  "${as_root[@]}" apt-get update -qq
  for package in "${missing[@]}"; do
    # One by one: not every system has a package of every name.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" \
      >/dev/null || echo "Going on without $package, which could not be installed: tests that need it are skipped." >&2
  done
else
  echo "Please install these packages (names as in Debian and Ubuntu): ${missing[*]}" >&2
  echo "Going on without them; drawing pictures may fail." >&2
fi
