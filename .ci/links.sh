#!/usr/bin/env bash
# Static tools do not follow setuptools' mapping of rooms: give them a tree of links.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .devtree
mkdir -p .devtree/nnjit_studio
for path in nnjit_studio/*; do
  case $path in */__pycache__) ;; *) ln -s "../../$path" .devtree/nnjit_studio/ ;; esac
done
for room in compiler ui resources; do ln -s "../../$room" .devtree/nnjit_studio/; done
