"""The local authority: it certifies this machine's addresses, for devices of the house alone."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from nnjit_studio.engine.pairing.address import NETWORKS
from nnjit_studio.errors import UserError
from nnjit_studio.support.temporary import process_folder

_YEARS = datetime.timedelta(days=5 * 365)
_DAYS = datetime.timedelta(days=7)
_HOUR = datetime.timedelta(hours=1)
_FILE = "authority.pem"


@dataclass(frozen=True)
class Authority:
    """A key with its certificate; it may speak for private networks only."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        """The certificate, which a device may install."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as browsers show it."""
        return self.certificate.fingerprint(hashes.SHA256()).hex(":").upper()

    def context(self, address: str) -> ssl.SSLContext:
        """TLS 1.2 or newer for a server on this address, by a key that is made now."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _begun("NNJIT Studio", self.certificate.subject, key.public_key(), _DAYS)
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        leaf = (
            builder.add_extension(names, critical=False)
            .add_extension(use, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The module takes keys from files alone; a folder of ours is closed to others.
        with tempfile.TemporaryDirectory(dir=process_folder()) as folder:
            file = Path(folder) / "leaf.pem"
            _write_secret(file, _pem(key) + _chain(leaf) + _chain(self.certificate))
            context.load_cert_chain(file)
        return context


def local_authority(folder: Path) -> Authority:
    """The authority of this user, made on first use; its file can be read by the user alone.

    Raises
    ------
    UserError
        When the file is damaged, old, or open to others.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / _FILE
    with FileLock(folder / "authority.lock"):
        if not file.exists():
            _make(file)
        return _read(file)


def _make(file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    title = "NNJIT Studio, this machine"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    # "invalid" is a domain that never exists: no name at all can be certified.
    only = [*(x509.IPAddress(network) for network in NETWORKS), x509.DNSName("invalid")]
    certificate = (
        _begun(title, name, key.public_key(), _YEARS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.NameConstraints(only, None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    _write_secret(part, _pem(key) + _chain(certificate))
    part.replace(file)


def _read(file: Path) -> Authority:
    again = f"Delete {file}: a new one is made, and devices are asked to trust it."
    if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise UserError("The key of the local authority can be read by others.", again)
    data = file.read_bytes()
    try:
        key = serialization.load_pem_private_key(data, None)
        certificate = x509.load_pem_x509_certificate(data)
    except (ValueError, TypeError) as e:
        raise UserError("The local authority's file is damaged.", again) from e
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.timezone.utc)
    if left < _DAYS or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError("The local authority is too old.", again)
    return Authority(key, certificate)


def _begun(
    title: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)  # the clock of a phone may be behind
        .not_valid_after(now + valid)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _chain(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_secret(file: Path, data: bytes) -> None:
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(data)
