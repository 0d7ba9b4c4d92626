"""Hints of errors in the window's words: a command line's options are none of them."""

from __future__ import annotations

import re

WORDS = (
    ("Add --gpu software to use it nevertheless, or use --backend wasm.",
     "Choose “WebGPU, software” in the header to use it nevertheless, or Wasm."),
    ("or ask for software with --gpu software", "or choose “WebGPU, software” in the header"),
    ("`nnjit doctor` lists the adapters; --backend wasm needs none.",
     "Help, Examine this machine lists the adapters; Wasm needs none."),
    ("use --backend wasm", "choose Wasm in the header"),
    ("Use --backend wasm", "Choose Wasm in the header"),
    ("Use --threads 1", "Choose one thread in the settings"),
    (": run `nnjit doctor --microbench`.", "."),
    ("Give arrays for the inputs with --inputs.",
     "Open the model in the window with its sizes, and press Open model here."),
    ("Leave out --fma, or use another browser.", "Untick fuse, or use another browser."),
    ("Try --fma, which is not bit-identical.", "Tick fuse, which is not bit-identical."),
    ("Correct --shape.", "Open the model again and correct its sizes."),
)  # fmt: skip
"""What the rooms below say, and what the window says instead."""
_OPTION = re.compile(r"(?<![\w-])--[a-z]|`nnjit ")


def in_window(text: str) -> str:
    """A hint without options of the command line; a sentence that needs one is left out."""
    for said, instead in WORDS:
        text = text.replace(said, instead)
    sentences = re.split(r"(?<=[.;]) ", text)
    return " ".join(s for s in sentences if not _OPTION.search(s))
