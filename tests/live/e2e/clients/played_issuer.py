"""An OpenID Connect issuer on loopback: discovery and keys over TLS, and ID tokens for whoever the test says.

It has no login page: what a proxy such as oauth2-proxy gets at the end of one is what `id_token` makes.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from cotenant_local.cluster.certificates import CertificateAuthority

KEY_ID = "played"


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@dataclass
class PlayedIssuer:
    url: str
    authority: Path
    """Certificate of who signed the issuer's."""
    asked: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(default_factory=_new_key)

    def id_token(self, *, key: rsa.RSAPrivateKey | None = None, lasts_s: float = 3600, **claims: Any) -> str:
        """Signed with RS256 (RFC 7518). `key`: another than the issuer's."""
        now = int(time.time())
        whole = {"iss": self.url, "iat": now - 7200, "nbf": now - 7200, "exp": now + int(lasts_s), **claims}
        signed = f"{_encoded({'alg': 'RS256', 'kid': KEY_ID, 'typ': 'JWT'})}.{_encoded(whole)}"
        signature = (key or self._key).sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def forged(self, **claims: Any) -> str:
        """A token made by somebody who knows everything except the issuer's key."""
        return self.id_token(key=_new_key(), **claims)

    def document(self, path: str) -> Mapping[str, Any] | None:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        if path == "/keys":
            numbers = self._key.public_key().public_numbers()
            return {
                "keys": [
                    {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": _number(numbers.n), "e": "AQAB"}
                ]
            }
        return None


@contextmanager
def played_issuer(folder: Path) -> Iterator[PlayedIssuer]:
    authority = CertificateAuthority(folder, "issuer-ca")
    certificate, key = authority.issue("issuer", common_name="issuer", hosts=("127.0.0.1",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.document(self.path)
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    issuer = PlayedIssuer(f"https://127.0.0.1:{server.server_address[1]}", authority.certificate_file)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _number(value: int) -> str:
    return _text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _encoded(document: Mapping[str, Any]) -> str:
    return _text(json.dumps(document).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
