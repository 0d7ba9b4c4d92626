"""Adapters and error messages of wgpu-native; for the GPU process alone."""

from __future__ import annotations

import re
from typing import Any

import wgpu
from wgpu.backends.wgpu_native import extras

from nnjit_studio.engine.gpu_bridge.adapters import VENDORS, software_renderer
from nnjit_studio.engine.gpu_bridge.wire import GpuFault

FEATURES = {
    "shader-f16": "shader-f16",
    "subgroup": "subgroups",
    "timestamp-query": "timestamp-query",
}
"""Features that kernels can use: wgpu's name, WebGPU's name."""

LIMITS = (
    "max-bindings-per-bind-group",
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-size-y",
    "max-compute-workgroup-size-z",
    "max-compute-workgroup-storage-size",
    "max-compute-workgroups-per-dimension",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "min-storage-buffer-offset-alignment",
)
"""Limits that kernels meet, by wgpu's names."""

_LANGUAGE_FEATURES = (
    "packed_4x8_integer_dot_product",
    "pointer_composite_access",
    "readonly_and_readwrite_storage_textures",
    "subgroup_id",
    "subgroup_uniformity",
    "unrestricted_pointer_parameters",
)
_RANKS = {"DiscreteGPU": 0, "IntegratedGPU": 1, "CPU": 3}
_FRAME = re.compile(r"Validation Error$|Caused by:$|In wgpu|[0-9]* *[│┌=]|$")
_PLACE = re.compile(r"┌─ wgsl:(\d+)")


def adapters() -> list[dict[str, Any]]:
    """What wgpu-native finds here, the most promising first."""
    return [adapter_facts(a) for a in _enumerate()]


def choose(kind: str) -> Any:
    """The adapter of that kind, ``hardware`` or ``software``.

    Raises
    ------
    GpuFault
        When there is none.
    """
    found = _enumerate()
    software = [a for a in found if adapter_facts(a)["is_fallback"]]
    wanted = software if kind == "software" else [a for a in found if a not in software]
    if wanted:
        return wanted[0]
    if kind == "software":
        raise GpuFault(
            "wgpu-native finds no software adapter.",
            "Install one: Debian's package mesa-vulkan-drivers has lavapipe.",
            "gpu-unavailable",
        )
    if software:
        name = adapter_facts(software[0])["description"]
        raise GpuFault(
            f"wgpu-native finds no GPU here, only {name}, which is software.",
            "Install the GPU's Vulkan driver, or ask for software with --gpu software.",
            "gpu-unavailable",
        )
    raise GpuFault(
        "wgpu-native finds no GPU here.",
        "Install the GPU's driver; on Linux it must bring Vulkan.",
        "gpu-unavailable",
    )


def adapter_facts(adapter: Any) -> dict[str, Any]:
    """An adapter in the words of WebGPU's GPUAdapterInfo.

    ``is_fallback`` tells software; ``backend`` is what drives the adapter.
    Subgroups are 0 where kernels cannot have any.
    """
    info = adapter.info
    software = software_renderer(
        info["vendor"], info["device"], is_fallback=info["adapter_type"] == "CPU"
    )
    has_subgroups = "subgroup" in adapter.features
    # The package misspells these two names; both spellings are taken.
    sizes = [
        info.get(f"subgroup_{end}_size", info.get(f"stackgroup_{end}_size", 0))
        for end in ("min", "max")
    ]
    driver = f"{info['vendor']} {info['description']}".strip()
    return {
        "vendor": VENDORS.get(info["vendor_id"], f"0x{info['vendor_id']:04x}"),
        "architecture": info["architecture"],
        "device": f"0x{info['device_id']:04x}",
        "description": info["device"],
        "driver": f"{driver} ({info['backend_type']})",
        "backend": info["backend_type"],
        "is_fallback": bool(software),
        "software": software,
        "features": sorted(w for n, w in FEATURES.items() if n in adapter.features),
        "limits": {_camel(name): _limit(adapter.limits[name]) for name in LIMITS},
        "subgroup_min": int(sizes[0]) if has_subgroups else 0,
        "subgroup_max": int(sizes[1]) if has_subgroups else 0,
    }


def language_features(device: Any) -> list[str]:
    """WGSL's language features: naga tells them only by accepting or refusing the directive."""

    def knows(feature: str) -> bool:
        code = f"requires {feature};\n@compute @workgroup_size(1) fn main() {{}}"
        try:
            device.create_shader_module(code=code)
        except wgpu.GPUError:
            return False
        return True

    return [feature for feature in _LANGUAGE_FEATURES if knows(feature)]


def fault_of(error: Exception) -> GpuFault:
    code = "gpu-memory" if isinstance(error, wgpu.GPUOutOfMemoryError) else "gpu-kernel"
    return GpuFault(said(error), code=code)


def said(error: Exception | str) -> str:
    """What wgpu says on one line, without its picture of the code but with the place."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if not _FRAME.match(line)]
    places = [f"(line {m[1]})" for line in lines if (m := _PLACE.search(line))]
    text = " ".join((*kept, *places[:1])).replace("Shader '' ", "")
    return f"wgpu-native says: {text[:600] or 'nothing'}"


def _enumerate() -> list[Any]:
    global _instance_made
    if not _instance_made:
        # Vulkan, Metal, D3D12. OpenGL has no storage for kernels worth tuning.
        extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
        _instance_made = True
    found = wgpu.gpu.enumerate_adapters_sync()
    return sorted(found, key=lambda a: _RANKS.get(a.info["adapter_type"], 2))


_instance_made = False


def _limit(value: int) -> int:
    return min(int(value), 2**53 - 1)


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)
