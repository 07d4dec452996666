"""Certificates for tests of TLS: self-signed ones in the files of a mounted Secret, and authorities that sign those of
clients."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cotenant.serving.self_signed import SelfSigned


def write_certificate(folder: Path, host: str) -> None:
    """Write `tls.crt` and `tls.key` of a new self-signed certificate."""
    SelfSigned.made([host], datetime.datetime.now(datetime.UTC)).write(folder)


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class Authority:
    name: str
    _key: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)

    @property
    def pem(self) -> str:
        certificate = self._sign(self.name, self._key.public_key(), is_authority=True)
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write_client(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Certificate and key of a client."""
        key = _new_key()
        certificate = self._sign(name, key.public_key(), is_authority=False)
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        paths[1].write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))
        return paths

    def _sign(self, name: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> x509.Certificate:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, self.name))
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - day)
        builder = builder.not_valid_after(now + day)
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if not is_authority:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(self._key, hashes.SHA256())
