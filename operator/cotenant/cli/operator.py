"""`cotenant operator`: runs one replica of the operator against the cluster of the kubeconfig or of its own pod."""

import argparse
from typing import Final

GC_THRESHOLD: Final = 20_000
"""New containers between two runs of the garbage collector: some megabytes of garbage at most.

Parsed JSON has no cycles. With Python's default of 700 the collector took a fifth of the operator's CPU while jobs were
admitted.
"""


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    _add_settings(register_name(verbs))


def register_name(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Register the verb without its flags, for a list of verbs."""
    parser = verbs.add_parser(
        "operator",
        help="run the operator",
        description="Run one replica of the operator. Every flag may be given as an environment variable:"
        " --worker-image is COTENANT_WORKER_IMAGE.",
    )
    parser.set_defaults(run=run)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from cotenant.controller.settings import Settings

    for name, field in Settings.model_fields.items():
        default = f" (default: {field.default})" if field.default != "" else ""
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=type(field.default).__name__.upper(),
            help=f"{field.description}{default}".replace("%", "%%"),
        )


def run(args: argparse.Namespace) -> int:
    import asyncio

    from cotenant.cli.errors import UserError
    from cotenant.controller.settings import Settings, SettingsError
    from cotenant.controller.telemetry import logs

    try:
        settings = Settings.read(flags=vars(args))
    except SettingsError as error:
        raise UserError(str(error), 2) from error
    logs.configure(settings.log_level)
    from cotenant.controller.client.credentials import NoClusterError
    from cotenant.controller.main import run as run_operator

    collect_garbage_rarely()
    try:
        return asyncio.run(run_operator(settings))
    except NoClusterError as error:
        raise UserError(str(error), 2) from error


def collect_garbage_rarely() -> None:
    """Set Python's garbage collector as the operator needs it, once its modules are loaded."""
    import gc

    gc.collect()
    gc.freeze()  # modules and classes stay
    gc.set_threshold(GC_THRESHOLD, 20, 20)
