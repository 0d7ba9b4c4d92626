"""The profile as node data of Google's Model Explorer: it colours the ONNX graph by time.

The format is ``GraphNodeData`` of its ``node_data_builder``: results by node id, and a
gradient from the least to the largest value.
"""

from __future__ import annotations

from typing import Any

from nnjit_studio.analysis.profile.records import ModelProfile

GRADIENT = ((0.0, "#ffffff"), (0.5, "#fee08b"), (1.0, "#d73027"))


def node_data(profile: ModelProfile) -> dict[str, Any]:
    """Milliseconds by the name of the ONNX node.

    The time of a step stands at one of the nodes that were fused into it, the one that
    names it, so that sums over groups stay right; the others have 0. Steps without any
    ONNX node stand under their own name.
    """
    values: dict[str, float] = {}
    for step in profile.steps:
        nodes = step.source or (step.node,)
        for node in nodes:
            values.setdefault(node, 0.0)
        values[step.node if step.node in nodes else nodes[0]] += step.ms
    return {
        "results": {name: {"value": ms} for name, ms in values.items()},
        "gradient": [{"stop": stop, "bgColor": color} for stop, color in GRADIENT],
    }
