"""Profile of a model: time of each step, the cold start, memory, and findings in words."""

from nnjit_studio.analysis.profile.compare import Comparison, StepDelta, compare, headline, load
from nnjit_studio.analysis.profile.findings import Finding, findings, ranked
from nnjit_studio.analysis.profile.memory import MeasuredMemory, renderer_memory
from nnjit_studio.analysis.profile.node_data import node_data
from nnjit_studio.analysis.profile.records import ModelProfile, Steady, StepProfile
from nnjit_studio.analysis.profile.rows import step_rows
from nnjit_studio.analysis.profile.text import as_text
from nnjit_studio.analysis.profile.trace import trace_events

__all__ = [
    "Comparison",
    "Finding",
    "MeasuredMemory",
    "ModelProfile",
    "Steady",
    "StepDelta",
    "StepProfile",
    "as_text",
    "compare",
    "findings",
    "headline",
    "load",
    "node_data",
    "ranked",
    "renderer_memory",
    "step_rows",
    "trace_events",
]
