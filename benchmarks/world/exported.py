"""What torch.onnx exports with open sizes, each at three sizes from one import and one bundle.

    python benchmarks/models/export.py --open FOLDER    (with benchmarks/models/requirements.txt)
    python benchmarks/world/exported.py FOLDER --out WORK

Both exporters, small models with random weights: what counts is the operators and the formulas of
their sizes. Compared with ONNX Runtime, as in world.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from world import Feeds, Sizes, measure, parser_of

TITLE = "Exported by torch.onnx with open sizes"
ABOUT = (
    "Small models of real configurations with random weights, their batches, lengths, heights and "
    "widths open (`benchmarks/models/export.py --open`)."
)
_TEXTS = ((1, 5), (2, 16), (3, 41))
_PASTS = ((1, 1), (2, 15), (3, 40))


def _past(heads: int) -> list[Sizes]:
    parts = [f"past_key_values.{i}.{kind}" for i in range(2) for kind in ("key", "value")]
    return [
        {"input_ids": (n, 1), "attention_mask": (n, past + 1)}
        | dict.fromkeys(parts, (n, heads, past, 16))
        for n, past in _PASTS
    ]


_ENCODER: list[Sizes] = [{"input_ids": size, "attention_mask": size} for size in _TEXTS]
SIZES: dict[str, list[Sizes]] = {
    "bert": _ENCODER,
    "distilbert": _ENCODER,
    "t5": [
        {**sizes, "decoder_input_ids": (size[0], size[1] + 3)}
        for sizes, size in zip(_ENCODER, _TEXTS, strict=True)
    ],
    "whisper-encoder": [{"input_features": (n, 20, 100)} for n in (1, 2, 5)],
    "vit": [{"pixel_values": (n, 3, 32, 32)} for n in (1, 2, 5)],
    "unet": [{"pixel_values": s} for s in ((1, 3, 32, 32), (2, 3, 64, 48), (1, 3, 96, 80))],
    "lstm": [{"input_ids": size} for size in _TEXTS],
    "gpt2-past": _past(4),
    "mistral-past": _past(2),
}


def arrays(sizes: Sizes, rng: np.random.Generator) -> Feeds:
    """Seeded: token ids, masks of ones, noise."""
    feeds: Feeds = {}
    for name, shape in sizes.items():
        if name.endswith("ids"):
            feeds[name] = rng.integers(2, 50, shape)
        elif name.endswith("mask"):
            feeds[name] = np.ones(shape, np.int64)
        else:
            feeds[name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", type=Path, help="Folder of the exported files.")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    def feeds(path: Path) -> list[Feeds]:
        rng = np.random.default_rng(0)
        return [arrays(each, rng) for each in SIZES[path.name.split(".")[0]]]

    measure(sorted(given.files.glob("*.onnx")), feeds, given, TITLE, ABOUT)


if __name__ == "__main__":
    main()
