"""The README of a bundle."""

from __future__ import annotations

import json

from nnjit_studio.bundle.manifest import Manifest
from nnjit_studio.model.memory import WASM_BYTES, forecast
from nnjit_studio.model.open_plan import OpenPlan

README = """\
{name}: a model with its tuned kernels, for the web
{generator}, {created}

To look at it, serve this folder and open it in a browser:

    python3 -m http.server 8000
    http://localhost:8000/

Any static server will do. It must send .js as text/javascript. Opened from the
disk, index.html asks for this folder first: browsers load no modules from there.

In a page of yours:

    import {{ InferenceSession, Tensor }} from "./nnjit.js";
    const session = await InferenceSession.create("./manifest.json");
    const outputs = await session.run({{
{feeds}
    }});
    // {outputs}

Inputs:  {inputs}

The engine needs no special headers. For more than one thread, ask for them with
{{ numThreads: 2 }} as second argument of create (0 chooses by the machine), and
send with every file
    Cross-Origin-Opener-Policy: same-origin
    Cross-Origin-Embedder-Policy: require-corp
Without those headers one thread runs. A Content-Security-Policy must allow
'wasm-unsafe-eval' for scripts, and workers from 'self' for threads. Every
file is checked against its sha256 when it is loaded.
"""

GPU_README = """
This bundle has kernels for WebGPU too:

    InferenceSession.create("./manifest.json", {{ executionProviders: ["webgpu", "wasm"] }})

takes the first that works in the visitor's browser; session.executionProvider says
which, and session.fallbackReason why one before it does not.
"""

SIZES_README = """
This model takes inputs of any size in these ranges; the shapes above are an example:

{ranges}

A run at a new size compiles nothing. A size out of range is refused with a sentence, and
the session goes on. Memory by size; session.memoryAt({{ name: size }}) forecasts others,
and the session keeps what its largest run took:

{memory}
"""

TUNING_README = """
This bundle can be tuned on in the visitor's browser, which is off unless asked for:

    session.tune({{ budgetMs: 2000 }}); session.tuningReport();

Nothing leaves the page{sharing}, unless its option queue names a server to ask for kernels.
"""

GENERATION_README = """
This model makes text. It takes and gives token ids:

    for await (const {{ id, ms }} of session.generate(ids, {{ maxTokens: 64 }})) show(id);

Options: maxTokens, topK (1 is greedy), temperature, seed, stopTokens, signal.
The cache is in the engine's memory; one text at a time. A run of the session is
one decode step and writes into the same cache.
"""


def readme(manifest: Manifest, open_plan: OpenPlan | None, figures: str) -> str:
    """The text of the file that says how a page uses the bundle.

    ``figures`` are lines on what was measured of the model, or said at its export.
    """
    types = {"f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32"}
    types |= {"i8": "int8", "u8": "uint8"}
    feeds = "\n".join(
        f"      {json.dumps(s.name)}: new Tensor({json.dumps(types.get(s.dtype, s.dtype))}, "
        f"data, {json.dumps(s.shape)}),"
        for s in manifest.inputs
    )
    text = README + (GPU_README if manifest.gpu_kernels else "")
    text += TUNING_README if manifest.trials else ""
    text += GENERATION_README if manifest.generation else ""
    text += _sizes_readme(open_plan).replace("{", "{{").replace("}", "}}") if open_plan else ""
    made = text.format(
        name=manifest.name,
        sharing=f" but settings and times, to {manifest.share} alone and only where the page asks "
        "for that with its option share"
        if manifest.share
        else "",
        generator=manifest.generator,
        created=manifest.created,
        feeds=feeds,
        outputs="; ".join(f"outputs[{json.dumps(s.name)}].data" for s in manifest.outputs),
        inputs=", ".join(f"{s.name} {s.dtype} {list(s.shape)}" for s in manifest.inputs),
    )
    return f"{made}\n{figures.rstrip()}\n" if figures else made


def _sizes_readme(plan: OpenPlan) -> str:
    """Ranges of the open dimensions, and the memory at sizes that double."""
    lines = []
    for scale in (1, 4, 16, 64, 256, 1024):
        sizes = {d.name: min(d.high, max(d.low, d.step * scale)) for d in plan.dims}
        needed = forecast(plan.at(sizes)).wasm_bytes
        text = ", ".join(f"{name} {n}" for name, n in sizes.items())
        line = f"    {text}: {needed / 2**20:.1f} MiB"
        if line not in lines and needed <= WASM_BYTES:
            lines.append(line)
    ranges = [f"    {d}: {d.text}" for d in plan.dims]
    ranges += [f"    values of {p.name}: 0 to {p.most}" for p in plan.inputs if p.most is not None]
    return SIZES_README.format(ranges="\n".join(ranges), memory="\n".join(lines))
