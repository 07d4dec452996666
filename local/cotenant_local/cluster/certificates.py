"""The cluster's own certificate authority and what it signs. Elliptic keys: making all of them takes milliseconds.

Made before the sandbox starts. Files are readable by their owner only.
"""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cotenant_local.host.cluster_folder import write_secret

LIFETIME = datetime.timedelta(days=3650)


class CertificateAuthority:
    """Signs certificates. Its files are FOLDER/NAME.crt and FOLDER/NAME.key, created if missing."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.certificate_file = folder / f"{name}.crt"
        self.key_file = folder / f"{name}.key"
        if not self.key_file.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            subject = _name(f"cotenant-local-{name}", ())
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = _builder(subject, subject, key.public_key()).add_extension(usage, critical=True)
            certificate = builder.add_extension(x509.BasicConstraints(True, None), critical=True).sign(
                key, hashes.SHA256()
            )
            write_secret(self.certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
            write_secret(self.key_file, private_pem(key))
        loaded = serialization.load_pem_private_key(self.key_file.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())

    def issue(
        self, name: str, *, common_name: str, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
    ) -> tuple[Path, Path]:
        """A certificate for a client, or with `hosts` for a server too. Returns its two files; an old one stays."""
        certificate_file, key_file = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        if key_file.exists():
            return certificate_file, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = _builder(_name(common_name, groups), self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general_name(h) for h in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        write_secret(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        write_secret(key_file, private_pem(key))
        return certificate_file, key_file


def signing_key(folder: Path, name: str) -> tuple[Path, Path]:
    """A key pair for service-account tokens: (public, private)."""
    public, private = folder / f"{name}.pub", folder / f"{name}.key"
    if not private.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        write_secret(public, key.public_key().public_bytes(serialization.Encoding.PEM, spki))
        write_secret(private, private_pem(key))
    return public, private


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1, not PKCS 8: the API server's token signer reads "EC PRIVATE KEY".
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _name(common_name: str, groups: tuple[str, ...]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # Clocks of containers may lag; an hour of grace.
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + LIFETIME)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
