"""Every verb once, on a machine without a network: which names does it look up?

``make no-lookups``: each line of :data:`JOBS` runs as a user would type it, under `lonely.py`. A
line that failed is told: it may have ended before it would have asked.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lonely
import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "compiler"))
from decoder_models import decoder

PAGE = "--target chromium $SANDBOX"
SERVER = "nnjit server start --port 8500 --database sqlite:///s.db --compile 1 --kernels s"
HOUSE = "192.168.77.1"
INTERRUPTED = "timeout -s INT"
_INTERRUPTED = 124
"""What timeout answers where it had to end a line, as it has to here."""
JOBS: dict[str, tuple[str, ...]] = {
    "sample": ("nnjit sample mobilenet-v2 -o net.onnx",),
    "export": (
        "nnjit export net.onnx -o net.zip --candidates 2 --programs p --share http://127.0.0.1:8500",
    ),
    "verify": ("nnjit verify net.zip",),
    "run": (
        f"nnjit run net.onnx --inputs net.npz --outputs out.npz {PAGE}",
        "nnjit run net.onnx --inputs net.npz --outputs out.npz --target embedded $SANDBOX",
        "nnjit run net.onnx --inputs net.npz --outputs out.npz --target firefox",
        f"nnjit run net.onnx --inputs net.npz --outputs out.npz --backend webgpu --gpu software "
        f"{PAGE}",
    ),
    "tune": (f"nnjit tune net.onnx --seconds 4 --database k.db {PAGE}",),
    "profile": (f"nnjit profile net.onnx --runs 3 {PAGE}",),
    "diff": (f"nnjit diff net.onnx {PAGE}",),
    "faster": (f"nnjit faster net.onnx --runs 3 --gpu software {PAGE}",),
    "advise": (f"nnjit advise net.onnx --seconds 1 {PAGE}",),
    "compare": (f"nnjit compare net.onnx --seconds 2 {PAGE}",),
    "generate": (f"nnjit generate text.onnx --ids 1,2,3 --tokens 5 {PAGE}",),
    "space": ("nnjit space net.onnx",),
    "compile": ("nnjit compile matmul:64x64x64:f32 --tier simd128 -o kernel.wasm",),
    "inspect": ("nnjit inspect kernel.wasm --compile --engine chromium $SANDBOX",),
    "turbo": (f"nnjit turbo kernel.wasm {PAGE}",),
    "offload": (f"nnjit offload kernel.wasm --measure --gpu software {PAGE}",),
    "live": (f"nnjit live $RUNTIME net.onnx --seconds 3 {PAGE}",),
    "bench": ("nnjit bench compile", f"nnjit bench kernels --shapes K0 --tune 2 {PAGE}"),
    "db": ("nnjit db list --database k.db", "nnjit db export k.json --database k.db"),
    "share": (
        f"{SERVER} & sleep 6; nnjit share on; "
        "nnjit share send http://127.0.0.1:8500 --yes --database k.db; kill -INT %1; wait",
    ),
    "server": (f"{INTERRUPTED} 8 {SERVER}",),
    "serve": (f"{INTERRUPTED} 6 nnjit serve net.zip",),
    "check": (
        "nnjit serve net.zip --port 8700 & sleep 4; "
        "nnjit check http://127.0.0.1:8700/ --browsers; kill -INT %1; wait",
    ),
    "devices": (
        "nnjit devices compare net.onnx --target chromium --target firefox --seconds 2 $SANDBOX",
        f"ip addr add {HOUSE}/24 dev lo; {INTERRUPTED} 6 nnjit devices open --listen {HOUSE}",
    ),
    "fleet": (
        "nnjit fleet tune net.onnx --workers 1 --database f.db "
        '--with "--seconds 2 --target chromium $SANDBOX"',
    ),
    "peers": ("nnjit peers list",),
    "doctor": ("nnjit doctor $SANDBOX --gpu software",),
    "studio": ("nnjit studio net.onnx --quit --database w.db $SANDBOX",),
}
"""Lines by verb, in an order in which they find what they need. `nnjit peers install` is the one
line whose job it is to fetch something."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(JOBS))
    parser.add_argument("--runtime", default="missing.wasm", help="a .wasm of ONNX Runtime Web")
    parser.add_argument("--peers", default="", help="folder with onnxruntime-web")
    options = parser.parse_args()
    reason = lonely.why_not()
    if reason:
        raise SystemExit(f"This machine cannot show it: {reason}.")
    found = failed = 0
    print("| line | exit code | s | names looked up |\n|---|--:|--:|---|")
    with tempfile.TemporaryDirectory(prefix="nnjit-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        decoder(folder / "text.onnx")
        np.savez(folder / "net.npz", x=np.zeros((1, 3, 224, 224), np.float32))
        for verb in options.only or JOBS:
            for line in JOBS[verb]:
                begun = time.monotonic()
                code, names = _run(line, folder, options)
                found, failed = found + len(names), failed + (code not in (0, _INTERRUPTED))
                told = ", ".join(sorted(set(names))) or "none"
                row = f"| `{line}` | {code} | {time.monotonic() - begun:.0f} | {told} |"
                print(row, flush=True)
    print(f"\n{found} lookups; {failed} lines failed.")
    return int(found > 0)


def _run(line: str, folder: Path, options: argparse.Namespace) -> tuple[int, list[str]]:
    sandbox = "--no-sandbox" if os.geteuid() == 0 else ""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"cd {folder}; export PATH={path}; set -m; {line}"
    variables = {"SANDBOX": sandbox, "RUNTIME": options.runtime}
    if options.peers:
        variables["NNJIT_PEERS"] = options.peers
    try:
        done, names = lonely.run(["bash", "-c", script], folder, 240.0, **variables)
    except subprocess.TimeoutExpired:
        return 1, (folder / "names").read_text().split()
    if done.returncode:
        print(done.stderr[-300:], file=sys.stderr)
    return done.returncode, names


if __name__ == "__main__":
    sys.exit(main())
