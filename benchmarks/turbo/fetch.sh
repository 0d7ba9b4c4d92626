#!/usr/bin/env bash
# fetch.sh FOLDER: installs each line of packages.txt into a folder of its own below FOLDER.
set -euo pipefail
list=$(dirname "$(realpath "$0")")/packages.txt
mkdir -p "$1"
while read -r -a packages; do
  [ ${#packages[@]} -gt 0 ] || continue
  place=$1/$(basename "${packages[0]}")
  [ -d "$place/node_modules" ] || npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$place" "${packages[@]}"
done <"$list"
