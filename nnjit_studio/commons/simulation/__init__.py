"""A seeded crowd of simulated devices around the real rule: what it gains, what attacks cost."""

from nnjit_studio.commons.simulation.crowd import CrowdOptions, CrowdResult, merged, simulate

__all__ = ["CrowdOptions", "CrowdResult", "merged", "simulate"]
