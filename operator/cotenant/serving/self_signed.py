"""Self-signed certificates, for servers whose clients know which certificate to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID: Final = timedelta(days=365)
RENEWED: Final = timedelta(days=120)
"""Before its end a certificate is made anew."""
SKEW: Final = timedelta(hours=1)
"""A certificate is valid for so long before it was made, because clocks differ."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class SelfSigned:
    certificate: bytes
    """In PEM, as the key."""
    key: bytes

    @classmethod
    def made(cls, names: Sequence[str], now: datetime) -> SelfSigned:
        """A new certificate for these DNS names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - SKEW).not_valid_after(now + VALID)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        pem = serialization.Encoding.PEM
        return cls(
            builder.sign(key, hashes.SHA256()).public_bytes(pem),
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )

    def serves(self, names: Sequence[str], now: datetime) -> bool:
        """True if it is for these names, and not near its end."""
        try:
            found = x509.load_pem_x509_certificate(self.certificate)
            key = serialization.load_pem_private_key(self.key, None)
            named = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, TypeError, x509.ExtensionNotFound):
            return False
        return (
            key.public_key() == found.public_key()
            and set(names) <= set(named.get_values_for_type(x509.DNSName))
            and found.not_valid_before_utc <= now <= found.not_valid_after_utc - RENEWED
        )

    def write(self, folder: Path) -> None:
        """Write the files of a mounted Secret. Only the owner may read the key."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in (("tls.key", self.key), ("tls.crt", self.certificate)):
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(text)
