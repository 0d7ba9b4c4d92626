#!/usr/bin/env bash
# Fetches the public modules of public.txt from npm into a folder, and lists what is offloaded of each.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="${1:?a folder outside of the repository}"
mkdir -p "$folder"
while read -r package; do
  into="$folder/${package//\//-}"
  [ -d "$into" ] && continue
  mkdir -p "$into"
  (cd "$into" && tar -xzf "$(npm pack --silent "$package" | tail -1)" --wildcards '*.wasm')
done <"$here/public.txt"
find "$folder" -name '*.wasm' -size +8k -print0 | sort -z | while IFS= read -r -d '' file; do
  echo "== $file"
  nnjit offload "$file"
done
