"""Names of GPU adapters, and which of them are software."""

from __future__ import annotations

SOFTWARE = {
    "swiftshader": "SwiftShader",
    "llvmpipe": "llvmpipe",
    "lavapipe": "lavapipe",
    "softpipe": "softpipe",
    "basic render": "WARP",
    "warp": "WARP",
}
"""Part of an adapter's name in lower case, and the software renderer that it means."""

VENDORS = {
    0x10DE: "nvidia",
    0x1002: "amd",
    0x8086: "intel",
    0x106B: "apple",
    0x13B5: "arm",
    0x5143: "qualcomm",
    0x1010: "img-tec",
    0x1414: "microsoft",
    0x10005: "mesa",
}
"""PCI vendor ids (and Khronos' for Mesa) by the names that browsers give them."""


def software_renderer(*names: str, is_fallback: bool = False) -> str:
    """The software behind an adapter with these names; empty for a GPU.

    Parameters
    ----------
    is_fallback
        What the adapter says of itself (``isFallbackAdapter``, an adapter of type CPU).
    """
    words = " ".join(names).lower().split()
    text = " ".join(words)
    for part, name in SOFTWARE.items():
        if part in words or (part != "warp" and part in text):
            return name
    return "a software adapter" if is_fallback else ""
