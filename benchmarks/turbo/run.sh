#!/usr/bin/env bash
# run.sh NNJIT FOLDER TARGET [OPTIONS]: makes and measures turbo modules of every package of
# packages.txt (fetched into FOLDER), and appends to results.md here. The newest ONNX Runtime Web has
# all cases. WebKitGTK has neither fused products nor threads for ONNX Runtime Web.
set -euo pipefail
nnjit=$1 folder=$2 target=$3
options=("${@:4}")
here=$(dirname "$(realpath "$0")")
passes=(--kernels --fma) threads=1,2
if [ "$target" = webkitgtk ]; then passes=(--kernels) threads=1; fi
measure() { # module, name, bench options
  local out=$folder/$target/$2 builds
  mkdir -p "$(dirname "$out")"
  "$nnjit" turbo "$1" -o "$out.wasm" "${passes[@]}" --least-gain 1 --target "$target" "${options[@]}" || return 0
  builds=("$out.wasm")
  [ "$target" = webkitgtk ] || builds+=("$out-relaxed.wasm")
  "$nnjit" bench turbo "$1" "${builds[@]}" --target "$target" --markdown "$here/results.md" "${@:3}" "${options[@]}"
}
short=matmul-384x768x768,matmul-640x768x3072,minilm,resnet-18
for version in 1.30.0 1.22.0 1.19.2; do
  cases=$short
  [ "$version" != 1.30.0 ] || cases+=,vit-tiny,mobilenet-v2,whisper-tiny-encoder,ocr-det
  dist=$folder/onnxruntime-web@$version/node_modules/onnxruntime-web/dist
  measure "$dist/ort-wasm-simd-threaded.wasm" "ort-$version" --threads "$threads" --cases "$cases"
done
dist=$folder/tfjs-core@4.22.0/node_modules/@tensorflow/tfjs-backend-wasm/dist
measure "$dist/tfjs-backend-wasm-simd.wasm" tfjs-simd
[ "$target" = webkitgtk ] || measure "$dist/tfjs-backend-wasm-threaded-simd.wasm" tfjs-threaded-simd
