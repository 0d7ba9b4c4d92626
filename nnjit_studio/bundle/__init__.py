"""The bundle: a model with its tuned kernels, as a zip for any static server."""

from nnjit_studio.bundle.candidates import Candidates, allowed_address, trial_memory
from nnjit_studio.bundle.engine import engine_files
from nnjit_studio.bundle.keys import public_key, remembered, signing_key
from nnjit_studio.bundle.manifest import BundleFile, BundleKernel, Manifest
from nnjit_studio.bundle.reader import Bundle, VerifyReport, read_bundle, verify_bundle
from nnjit_studio.bundle.seal import Seal, write_seal
from nnjit_studio.bundle.shards import SHARD_BYTES
from nnjit_studio.bundle.writer import BundleParts, write_bundle, write_folder

__all__ = [
    "SHARD_BYTES",
    "Bundle",
    "BundleFile",
    "BundleKernel",
    "BundleParts",
    "Candidates",
    "Manifest",
    "Seal",
    "VerifyReport",
    "allowed_address",
    "engine_files",
    "public_key",
    "read_bundle",
    "remembered",
    "signing_key",
    "trial_memory",
    "verify_bundle",
    "write_bundle",
    "write_folder",
    "write_seal",
]
