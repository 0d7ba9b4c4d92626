"""ONNX file in, graph, workloads, plan, programs and weights out."""

from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import graph_text, import_model

__all__ = ["BuiltModel", "graph_text", "import_model"]
