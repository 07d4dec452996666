"""How a verb refuses: `cotenant.cli.main` prints the message and exits with the code, without a traceback."""


class UserError(Exception):
    """What went wrong, where, and what to do, in words for the person at the terminal."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
