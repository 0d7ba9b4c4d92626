"""A kernel from the inside: what the compiler made of a candidate, and why."""

from nnjit_studio.analysis.kernel.changes import ChangedLine, as_text, changes
from nnjit_studio.analysis.kernel.kernel import KernelInspection, Limits, PassStep, inspect_kernel
from nnjit_studio.analysis.kernel.line_map import LineMap
from nnjit_studio.analysis.kernel.text import inspection_json, inspection_text

__all__ = [
    "ChangedLine",
    "KernelInspection",
    "Limits",
    "LineMap",
    "PassStep",
    "as_text",
    "changes",
    "inspect_kernel",
    "inspection_json",
    "inspection_text",
]
