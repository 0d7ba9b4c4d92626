#!/usr/bin/env bash
# Compiles the planted loops with LLVM's wasm32 target: `ziglang` on PyPI holds one.
#   python -m ziglang version; ZIG="python -m ziglang" tests/offload/planted/build.sh
set -euo pipefail
cd "$(dirname "$0")"
for variant in "o2 -O2" "o3 -O3" "o2-simd -O2 -msimd128" "o3-simd -O3 -msimd128" "o3-fast -O3 -msimd128 -ffast-math"; do
  read -r name flags <<<"$variant"
  # shellcheck disable=SC2086
  ${ZIG:-python -m ziglang} cc -target wasm32-freestanding $flags -g0 -nostdlib -Wl,--no-entry \
    -Wl,--strip-debug -Wl,--initial-memory=4194304 -o "planted-$name.wasm" planted.c
done
