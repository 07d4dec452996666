"""Certificates: signed by the cluster's authority, for one purpose, and made once."""

import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cotenant_local.cluster.certificates import CertificateAuthority, signing_key


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path, "ca")


def loaded(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def names(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str | bytes]:
    return [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]


def test_the_authority_signs_itself_and_may_sign_others(authority: CertificateAuthority) -> None:
    own = loaded(authority.certificate_file)
    own.verify_directly_issued_by(own)
    assert names(own, NameOID.COMMON_NAME) == ["cotenant-local-ca"]
    assert own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is True
    assert own.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is True
    assert own.not_valid_after_utc - own.not_valid_before_utc == datetime.timedelta(days=3650, hours=1)


def test_a_client_has_its_name_and_groups_and_cannot_serve(authority: CertificateAuthority) -> None:
    certificate = loaded(authority.issue("admin", common_name="kubernetes-admin", groups=("system:masters",))[0])
    certificate.verify_directly_issued_by(loaded(authority.certificate_file))
    assert names(certificate, NameOID.COMMON_NAME) == ["kubernetes-admin"]
    assert names(certificate, NameOID.ORGANIZATION_NAME) == ["system:masters"]
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_server_is_known_by_its_names_and_addresses(authority: CertificateAuthority) -> None:
    certificate = loaded(authority.issue("etcd", common_name="etcd", hosts=("localhost", "127.0.0.1"))[0])
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(hosts) == [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]


def test_kept_certificates_stay_as_they_are(authority: CertificateAuthority, tmp_path: Path) -> None:
    files = [*authority.issue("admin", common_name="one"), authority.certificate_file, authority.key_file]
    before = [file.read_bytes() for file in files]
    CertificateAuthority(tmp_path, "ca").issue("admin", common_name="two")
    assert [file.read_bytes() for file in files] == before
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_the_key_of_tokens_is_a_pair_in_the_format_that_the_api_server_reads(tmp_path: Path) -> None:
    public, private = signing_key(tmp_path, "tokens")
    assert private.read_bytes().startswith(b"-----BEGIN EC PRIVATE KEY-----")
    key = serialization.load_pem_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert serialization.load_pem_public_key(public.read_bytes()) == key.public_key()
    before = private.read_bytes()
    assert signing_key(tmp_path, "tokens") == (public, private)
    assert private.read_bytes() == before
