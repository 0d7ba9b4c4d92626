#!/usr/bin/env bash
# run.sh NNJIT FOLDER TARGET [OPTIONS]: makes and measures turbo modules of every package of
# packages.txt (fetched into FOLDER), and appends to results.md here.
set -euo pipefail
nnjit=$1 folder=$2 target=$3
shift 3
here=$(dirname "$(realpath "$0")")
measure() { # module, name, bench options
  local out=$folder/$target/$2
  mkdir -p "$(dirname "$out")"
  "$nnjit" turbo "$1" -o "$out.wasm" --fma --least-gain 1 --target "$target" "${options[@]}" || return 0
  "$nnjit" bench turbo "$1" "$out.wasm" "$out-relaxed.wasm" --target "$target" \
    --markdown "$here/results.md" "${@:3}" "${options[@]}"
}
options=("$@")
for version in 1.30.0 1.22.0 1.19.2; do
  dist=$folder/onnxruntime-web@$version/node_modules/onnxruntime-web/dist
  measure "$dist/ort-wasm-simd-threaded.wasm" "ort-$version" --threads 1,2
done
dist=$folder/tfjs-core@4.22.0/node_modules/@tensorflow/tfjs-backend-wasm/dist
for flavour in simd threaded-simd; do
  measure "$dist/tfjs-backend-wasm-$flavour.wasm" "tfjs-$flavour"
done
