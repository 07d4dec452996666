"""The extra `[local]`: looked for before a verb does anything, so that a missing package is not a traceback."""

from importlib.util import find_spec

from cotenant.cli.errors import UserError

MODULES = (
    "aiohttp",
    "cryptography",
    "grpc",
    "grpc_tools",
    "prometheus_client",
    "psutil",
    "rich",
    "yaml",
)


def require() -> None:
    """Raises UserError (exit code 2) if a package of the extra is missing."""
    if any(find_spec(name) is None for name in MODULES):
        raise UserError("the local cluster's dependencies are not installed: pip install 'cotenant[local]'", 2)
