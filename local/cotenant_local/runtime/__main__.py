"""`python -m cotenant_local.runtime --config FILE`: serves one node until SIGTERM."""

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from cotenant_local.programs import build
from cotenant_local.runtime.containers.images import CatalogueError
from cotenant_local.runtime.interface import config, proto


def main() -> int:
    parser = argparse.ArgumentParser(prog="cotenant_local.runtime", description=__doc__)
    parser.add_argument(
        "--config", type=Path, required=True, help="JSON file, see cotenant_local/runtime/interface/config.py"
    )
    arguments = parser.parse_args()
    try:
        settings = config.load(arguments.config)
    except config.ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    logging.basicConfig(
        filename=settings.log_file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    proto.load(build.stubs_path())
    from cotenant_local.runtime.cri.node_runtime import MissingProgramError
    from cotenant_local.runtime.cri.server import serve

    try:
        asyncio.run(serve(settings))
    except (CatalogueError, MissingProgramError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
