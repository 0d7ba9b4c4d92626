"""Finds the packages: three rooms stand at the top level and import as ``nnjit_studio.<room>``."""

from setuptools import find_packages, setup

ROOMS = ("compiler", "ui", "resources")

setup(
    packages=[
        *find_packages(include=["nnjit_studio*"]),
        *(f"nnjit_studio.{room}" for room in ROOMS),
        *(f"nnjit_studio.{room}.{inner}" for room in ROOMS for inner in find_packages(room)),
    ],
    package_dir={f"nnjit_studio.{room}": room for room in ROOMS},
)
