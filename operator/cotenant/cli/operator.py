"""`cotenant operator`: run one replica of the operator against the cluster of the kubeconfig, or of its own pod."""

import argparse
import dataclasses


def register(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser(
        "operator",
        help="run the operator",
        description="Run one replica of the operator. Every flag may be given as an environment variable:"
        " --worker-image is COTENANT_WORKER_IMAGE.",
    )
    _add_settings(parser)
    parser.set_defaults(run=run)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from cotenant.controller.settings import Settings

    for knob in dataclasses.fields(Settings):
        default = f" (default: {knob.default})" if knob.default != "" else ""
        parser.add_argument(
            f"--{knob.name.replace('_', '-')}",
            metavar=type(knob.default).__name__.upper(),
            help=f"{knob.metadata['about']}{default}".replace("%", "%%"),
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

    try:
        return asyncio.run(run_operator(settings))
    except NoClusterError as error:
        raise UserError(str(error), 2) from error
