"""The proxy on the way to an API server, chosen as kubectl does."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from cotenant.sdk.errors import CredentialsError
from cotenant.sdk.proxies import authorization, proxy_of

PROXIED = {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": ".corp.example,10.0.0.0/8, api.example.com:8443,fd00::/8"}


@pytest.mark.parametrize(
    ("url", "cluster", "environment", "proxy"),
    [
        ("https://api:6443", {}, {}, ""),
        ("https://api:6443", {"proxy-url": "http://bastion:8080"}, {}, "http://bastion:8080"),
        ("https://api:6443", {"proxy-url": "socks5://bastion:1080"}, PROXIED, "socks5://bastion:1080"),
        ("https://api:6443", {}, {"HTTPS_PROXY": "socks5h://bastion"}, "socks5h://bastion"),
        ("https://127.0.0.1:6443", {"proxy-url": "http://bastion:8080"}, PROXIED, "http://bastion:8080"),
        ("https://api:6443", {}, PROXIED, "http://p:3128"),
        ("https://api:6443", {}, {"https_proxy": "p:3128"}, "http://p:3128"),
        ("http://api:8080", {}, PROXIED, ""),
        ("https://127.0.0.1:6443", {}, PROXIED, ""),
        ("https://[::1]:6443", {}, PROXIED, ""),
        ("https://localhost:6443", {}, PROXIED, ""),
        ("https://api.corp.example", {}, PROXIED, ""),
        ("https://corp.example", {}, PROXIED, "http://p:3128"),
        ("https://10.1.2.3:6443", {}, PROXIED, ""),
        ("https://11.1.2.3:6443", {}, PROXIED, "http://p:3128"),
        ("https://[fd00::5]:6443", {}, PROXIED, ""),
        ("https://api.example.com:8443", {}, PROXIED, ""),
        ("https://api.example.com:6443", {}, PROXIED, "http://p:3128"),
        ("https://api:6443", {}, {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, ""),
    ],
)
def test_a_proxy_is_that_of_the_kubeconfig_or_of_the_environment(
    url: str, cluster: dict[str, str], environment: dict[str, str], proxy: str
) -> None:
    assert proxy_of(url, cluster, environment) == proxy


def test_a_proxy_that_is_not_spoken_to_is_named_with_a_way_out() -> None:
    with pytest.raises(CredentialsError, match=r"socks4://127.0.0.1:1080 is neither http.* forward a local port"):
        proxy_of("https://api:6443", {"proxy-url": "socks4://127.0.0.1:1080"}, {})


def test_a_proxy_is_told_who_asks() -> None:
    assert authorization(urlsplit("http://a:b%40@p:1")) == {"Proxy-Authorization": "Basic YTpiQA=="}
    assert authorization(urlsplit("http://p:1")) == {}
