"""Sizes that the file of the open model leaves open, and those it is open with."""

from __future__ import annotations

from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.workbench.inputs.roles import FREE, Axis, axes_of


def open_axes(state: SessionState) -> tuple[Axis, ...]:
    """The dimensions that the file leaves open; none of a sample or of another form's file."""
    model, survey = state.model, state.survey
    if model is None or survey is None or survey.path != model.path:
        return ()
    return axes_of(survey)


def words_of(axis: Axis) -> str:
    """Its role, or where it is when nothing tells a role."""
    return axis.role if axis.role != FREE else axis.title.removeprefix(f"{FREE}: ")


def sizes_here(state: SessionState) -> str:
    """Those of now, as ``batch 1, width 320``; empty where the file fixes all."""
    if state.model is None:
        return ""
    tensors, found = state.model.graph.tensors, []
    for axis in open_axes(state):
        name, place = axis.places[0]
        if name in tensors and place < len(tensors[name].shape):
            found.append(f"{words_of(axis)} {tensors[name].shape[place]}")
    return ", ".join(dict.fromkeys(found))
