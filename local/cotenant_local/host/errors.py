"""An error of the local cluster: what, where and what to do, in one message for the person at the terminal."""

from cotenant.cli.errors import UserError


class LocalError(UserError):
    """Raised at the door (arguments, files, programs, rights) and when a component does not come up."""
