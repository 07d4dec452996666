"""How a verb refuses: `cotenant.cli.main` prints the message and exits with the code, without a traceback."""

from typing import Final

EXIT_REFUSED: Final = 1
"""What was asked for was refused or failed, or was looked at and is not good."""
EXIT_USAGE: Final = 2
"""The words cannot be read, or there is no cluster to ask; nothing was asked."""
EXIT_NOT_FOUND: Final = 3
EXIT_FORBIDDEN: Final = 4
EXIT_UNAVAILABLE: Final = 5
"""Nobody answered: try again."""


class UserError(Exception):
    """What went wrong, where, and what to do, in words for the person at the terminal."""

    def __init__(self, message: str, exit_code: int = EXIT_REFUSED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
