"""Export small models with random weights by both exporters of torch.onnx.

    python benchmarks/models/export.py FOLDER [NAME ...]

A file NAME.dynamo.onnx or NAME.torchscript.onnx for each; models that an exporter refuses
are named with its reason. The sizes are small: what counts is the operators. With --open, the
models of ``OPEN`` alone, with their batches, lengths, heights and widths open in both exporters.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # should torch load ONNX Runtime

import torch
import torchvision
import transformers as hf
from torch import nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder

OPSETS = {"dynamo": (18, 20), "torchscript": (14, 17)}
"""Alternate by model, so that all of them are met."""
DYNAMIC = ("batch", "sequence")
ENCODER: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 66,
}  # fmt: skip
DECODER = ENCODER | {"num_key_value_heads": 2}
IDS, MASK = torch.randint(2, 50, (1, 16)), torch.ones(1, 16, dtype=torch.long)


class Call(nn.Module):
    """A model behind plain tensors."""

    def __init__(self, model: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.call(self.model, *inputs)


def encoder(name: str, **options: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = getattr(hf, f"{name}Config")(**(ENCODER | options))
    model = getattr(hf, f"{name}Model")(config)
    accepted = inspect.signature(model.forward).parameters
    mask = {"attention_mask": MASK} if "attention_mask" in accepted else {}

    def call(m: nn.Module, ids: torch.Tensor, *mask: torch.Tensor) -> torch.Tensor:
        return m(ids, **({"attention_mask": mask[0]} if mask else {})).last_hidden_state

    return Call(model, call), {"input_ids": IDS, **mask}


def decoder(name: str, **options: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = getattr(hf, f"{name}Config")(**options)
    model = getattr(hf, f"{name}ForCausalLM" if name != "GPT2" else "GPT2LMHeadModel")(config)
    return Call(model, lambda m, ids: m(ids, use_cache=False).logits), {"input_ids": IDS}


def with_past(model: nn.Module, heads: int) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A decode step: one token behind a past of 15."""

    def call(m: nn.Module, ids: torch.Tensor, mask: torch.Tensor, *past: torch.Tensor) -> Any:
        pairs = list(zip(past[::2], past[1::2], strict=True))
        out = m(ids, attention_mask=mask, past_key_values=hf.DynamicCache(pairs), use_cache=True)
        held = [part for layer in out.past_key_values.layers for part in (layer.keys, layer.values)]
        return (out.logits, *held)

    inputs = {"input_ids": IDS[:, :1], "attention_mask": MASK}
    for layer in range(2):
        for kind in ("key", "value"):
            inputs[f"past_key_values.{layer}.{kind}"] = torch.randn(1, heads, 15, 16)
    return Call(model, call), inputs


def sequences(name: str, **options: Any) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """An encoder-decoder."""
    config = getattr(hf, f"{name}Config")(vocab_size=100, d_model=64, **options)
    kind = "ForConditionalGeneration" if name == "T5" else "Model"
    model = getattr(hf, name + kind)(config)

    def call(m: nn.Module, ids: torch.Tensor, mask: torch.Tensor, target: torch.Tensor) -> Any:
        return m(ids, mask, decoder_input_ids=target, use_cache=False)[0]

    inputs = {"input_ids": IDS, "attention_mask": MASK, "decoder_input_ids": IDS}
    return Call(model, call), inputs


def image(model: nn.Module, size: int = 64, output: str = "") -> tuple[nn.Module, dict[str, Any]]:
    call: nn.Module = model
    if output:
        call = Call(model, lambda m, x: m(x)[output] if output == "out" else getattr(m(x), output))
    return call, {"pixel_values": torch.randn(1, 3, size, size)}


def vision(name: str, size: int = 64) -> tuple[nn.Module, dict[str, Any]]:
    options = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
    return image(getattr(torchvision.models, name)(weights=None, **options), size)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 24)
        self.cells = kind(24, 32, batch_first=True, bidirectional=True, **options)
        self.head = nn.Linear(64, 5)

    def forward(self, input_ids: torch.Tensor) -> Any:
        states, _ = self.cells(self.embedding(input_ids))
        return self.head(states[:, -1]), states


class UNet(nn.Module):
    """Group and instance norms, transposed convolution, bilinear and bicubic resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = self.pair(3, 8), self.pair(8, 16), self.pair(16, 16)
        self.down = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.transposed = nn.ConvTranspose2d(16, 8, 2, 2)
        self.d, self.e, self.out = self.pair(32, 16), self.pair(16, 8), nn.Conv2d(8, 2, 1)

    @staticmethod
    def pair(channels: int, wide: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(channels, wide, 3, padding=1), nn.GroupNorm(4, wide), nn.SiLU(),
            nn.Conv2d(wide, wide, 3, padding=1), nn.InstanceNorm2d(wide, affine=True),
            nn.LeakyReLU(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(self.down(a))
        y = self.d(torch.cat([self.up(self.c(self.down(b))), b], 1))
        y = self.e(torch.cat([self.transposed(y), a], 1))
        return nn.functional.interpolate(self.out(y), scale_factor=2, mode="bicubic")


class Scripted(nn.Module):
    """Control flow that stays in the file: If by shape, Loop by a constant count."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(4):
            x = self.linear(x) + i
        if x.shape[1] > 4:  # noqa: SIM108 - a branch is what the file shall hold
            x = torch.relu(x)
        else:
            x = x * 2
        return x


def whisper() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    config = hf.WhisperConfig(
        d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=128,
        max_source_positions=50, num_mel_bins=20,
    )  # fmt: skip
    call = Call(WhisperEncoder(config), lambda m, x: m(x).last_hidden_state)
    return call, {"input_features": torch.randn(1, 20, 100)}


def detr() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    backbone = hf.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1] * 4, out_features=["stage4"]
    )
    config = hf.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone,
        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=5,
        num_labels=4,
    )  # fmt: skip
    return image(hf.DetrForObjectDetection(config), output="logits")


GPT2 = {"n_layer": 2, "n_head": 4, "n_embd": 64, "vocab_size": 100, "n_positions": 64}
PARTS = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}  # fmt: skip
P2C = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
IMAGE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "image_size": 32, "patch_size": 8}  # fmt: skip

MODELS: dict[str, Callable[[], tuple[nn.Module, dict[str, torch.Tensor]]]] = {
    "bert": lambda: encoder("Bert"),
    "roberta": lambda: encoder("Roberta"),
    "distilbert": lambda: encoder("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "electra": lambda: encoder("Electra", embedding_size=32),
    "albert": lambda: encoder("Albert", embedding_size=32),
    "mpnet": lambda: encoder("MPNet"),
    "deberta": lambda: encoder("Deberta", **P2C),
    "deberta-v2": lambda: encoder("DebertaV2", position_buckets=8, share_att_key=True, **P2C),
    "fnet": lambda: encoder("FNet"),
    "squeezebert": lambda: encoder("SqueezeBert", embedding_size=64),
    "longformer": lambda: encoder("Longformer", attention_window=8),
    "clip-text": lambda: encoder("CLIPText", eos_token_id=2),
    "gpt2": lambda: decoder("GPT2", **GPT2),
    "gpt2-past": lambda: with_past(hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)), 4),
    "llama": lambda: decoder("Llama", **DECODER),
    "qwen2": lambda: decoder("Qwen2", **DECODER),
    "gemma2": lambda: decoder("Gemma2", head_dim=16, **DECODER),
    "mistral-past": lambda: with_past(hf.MistralForCausalLM(hf.MistralConfig(**DECODER)), 2),
    "phi": lambda: decoder("Phi", **ENCODER),
    "gpt-neox": lambda: decoder("GPTNeoX", **ENCODER),
    "bloom": lambda: decoder("Bloom", vocab_size=100, hidden_size=64, n_layer=2, n_head=4),
    "bart": lambda: sequences("Bart", max_position_embeddings=64, **PARTS),
    "t5": lambda: sequences("T5", d_kv=16, d_ff=128, num_layers=1, num_heads=4),
    "whisper-encoder": whisper,
    "vit": lambda: image(hf.ViTForImageClassification(hf.ViTConfig(**IMAGE)), 32, "logits"),
    "detr": detr,
    "unet": lambda: image(UNet(), 32),
    "lraspp": lambda: image(
        torchvision.models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=4
        ),
        output="out",
    ),
    "lstm": lambda: (Recurrent(nn.LSTM, num_layers=2), {"input_ids": IDS}),
    "gru": lambda: (Recurrent(nn.GRU), {"input_ids": IDS}),
    "rnn": lambda: (Recurrent(nn.RNN), {"input_ids": IDS}),
    "scripted": lambda: (torch.jit.script(Scripted()), {"x": torch.randn(1, 8)}),
    "swin": lambda: vision("swin_t"),
    **{
        name: lambda name=name: vision(name)
        for name in (
            "resnet18", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1",
            "shufflenet_v2_x0_5", "regnet_y_400mf", "convnext_tiny", "densenet121", "googlenet",
        )
    },
}  # fmt: skip


_TEXT, _IMAGE = {0: "batch", 1: "sequence"}, {0: "batch", 2: "height", 3: "width"}
_PAST = {0: "batch", 2: "past"}
OPEN: dict[str, dict[str, dict[int, str]]] = {
    **{n: {"input_ids": _TEXT, "attention_mask": _TEXT} for n in ("bert", "distilbert")},
    "t5": {
        "input_ids": _TEXT, "attention_mask": _TEXT,
        "decoder_input_ids": {0: "batch", 1: "target"},
    },
    "whisper-encoder": {"input_features": {0: "batch"}},
    "vit": {"pixel_values": {0: "batch"}},
    "unet": {"pixel_values": _IMAGE},
    "lstm": {"input_ids": _TEXT},
    **{
        n: {"input_ids": {0: "batch"}, "attention_mask": {0: "batch", 1: "whole"}}
        | {f"past_key_values.{i}.{kind}": _PAST for i in range(2) for kind in ("key", "value")}
        for n in ("gpt2-past", "mistral-past")
    },
}  # fmt: skip
"""The axes that are open, by input. Whisper's encoder and ViT have tables of one length."""


def export_open(name: str, exporter: str, folder: Path, opset: int) -> None:
    """A model whose axes are open, from examples of two, which no exporter takes for a constant."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    inputs = {n: torch.cat((x, x)) for n, x in inputs.items()}
    options: dict[str, Any] = {"input_names": list(inputs), "opset_version": opset}
    if exporter == "dynamo":
        axes = tuple({axis: torch.export.Dim.DYNAMIC for axis in OPEN[name][n]} for n in inputs)
        names = list(inspect.signature(model.forward).parameters)
        shapes: Any = (
            {"inputs": axes} if isinstance(model, Call) else dict(zip(names, axes, strict=True))
        )
        options |= {
            "dynamo": True, "external_data": False, "verbose": False, "dynamic_shapes": shapes,
        }  # fmt: skip
    else:
        options |= {"dynamo": False, "dynamic_axes": OPEN[name]}
    file = folder / f"{name}.{exporter}.onnx"
    torch.onnx.export(model.eval(), tuple(inputs.values()), str(file), **options)


def export(name: str, exporter: str, folder: Path, opset: int) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    file = folder / f"{name}.{exporter}.onnx"
    options: dict[str, Any] = {"input_names": list(inputs), "opset_version": opset}
    if exporter == "dynamo":
        options |= {"dynamo": True, "external_data": False, "verbose": False}
    else:
        options |= {"dynamo": False}
        # Open dimensions, where the model is for text: they are settled on import.
        texts = [n for n, x in inputs.items() if x.dtype == torch.long and x.shape == IDS.shape]
        if "past" not in name:
            options["dynamic_axes"] = {n: dict(enumerate(DYNAMIC)) for n in texts}
    torch.onnx.export(model.eval(), tuple(inputs.values()), str(file), **options)


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with_open = "--open" in sys.argv
    folder, *names = (word for word in sys.argv[1:] if word != "--open")
    folder, write = Path(folder), export_open if with_open else export
    folder.mkdir(parents=True, exist_ok=True)
    terminal = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # both exporters print whole graphs
    os.dup2(1, 2)
    for number, name in enumerate(names or (OPEN if with_open else MODELS)):
        for exporter, opsets in OPSETS.items():
            try:
                write(name, exporter, folder, opsets[number % 2])
                said = "exported"
            except Exception as e:
                said = f"refused by the exporter: {type(e).__name__} {str(e).strip()[:100]!r}"
            print(f"{name} {exporter}: {said}", file=terminal, flush=True)


if __name__ == "__main__":
    main()
