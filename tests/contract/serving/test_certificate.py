"""The certificate of a folder, and one that is renewed badly."""

from pathlib import Path

import pytest

from cotenant.serving.certificate import ServingCertificate
from tests.support.certificates import write_certificate


def test_a_folder_without_a_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ServingCertificate(tmp_path)


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key"])
def test_what_cannot_be_loaded_leaves_the_old_certificate_until_it_can(tmp_path: Path, broken: str) -> None:
    write_certificate(tmp_path, "localhost")
    certificate = ServingCertificate(tmp_path)
    (tmp_path / broken).write_text("half")
    certificate.refresh()
    (tmp_path / broken).unlink()
    certificate.refresh()
    write_certificate(tmp_path, "localhost")
    certificate.refresh()
    assert certificate.context.cert_store_stats()["x509"] == 0
