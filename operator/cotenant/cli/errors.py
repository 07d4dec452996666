"""How a verb refuses: `cotenant.cli.main` prints the message and exits with the code, without a traceback."""

from typing import Final

EXIT_REFUSED: Final = 1
"""The request was refused or failed, or a check found an error."""
EXIT_USAGE: Final = 2
"""The command line is wrong, or there is no cluster to ask. Nothing was sent."""
EXIT_NOT_FOUND: Final = 3
EXIT_FORBIDDEN: Final = 4
EXIT_UNAVAILABLE: Final = 5
"""Nothing answered. The person can try again."""


class UserError(Exception):
    """What went wrong, where, and what to do, in words for the person at the terminal."""

    def __init__(self, message: str, exit_code: int = EXIT_REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
