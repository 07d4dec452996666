"""Credentials of the API server, from the kubernetes client's configuration: where it is, the token, TLS."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import kubernetes.config
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies


class NoClusterError(RuntimeError):
    """Neither a service account nor a kubeconfig is there."""


def load_configuration(kubeconfig: str | None = None) -> Configuration:
    """Load the kubeconfig that is named; else the service account of a pod, else `KUBECONFIG` or `~/.kube/config`."""
    configuration = Configuration()
    if kubeconfig is not None:
        kubernetes.config.load_kube_config(kubeconfig, client_configuration=configuration)
        return configuration
    try:
        kubernetes.config.load_incluster_config(client_configuration=configuration)
    except kubernetes.config.ConfigException:
        try:
            kubernetes.config.load_kube_config(client_configuration=configuration)
        except kubernetes.config.ConfigException as error:
            raise NoClusterError(f"no cluster to talk to ({error}); set KUBECONFIG, or run in a pod") from error
    return configuration


def trusted(configuration: Configuration) -> bytes:
    """The authorities that the API server's certificate may be of, as they are mounted now."""
    try:
        return Path(configuration.ssl_ca_cert or "").read_bytes()
    except OSError:
        return b""


def authorization(configuration: Configuration) -> dict[str, str]:
    """Header of one call: the configuration re-reads a mounted token, or runs an exec plugin, when it is due."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if token:
        return {"Authorization": token}
    if configuration.username:
        pair = f"{configuration.username}:{configuration.password or ''}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    return {}


def way_to(configuration: Configuration) -> dict[str, Any]:
    """Arguments of a request: the proxy on the way, and the name that the server's certificate is for."""
    proxy = configuration.proxy
    if proxy and should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        proxy = None
    return {"proxy": proxy, "server_hostname": configuration.tls_server_name or None}


def tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not str(configuration.host).startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
