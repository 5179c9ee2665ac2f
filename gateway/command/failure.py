"""Why a command of the command line ended without success, in words for the person who typed it."""


class CommandFailed(Exception):  # noqa: N818 - what happened
    """The command did not do what was asked.

    Attributes:
        message: What was wrong and what would be right, in one or a few lines.
        code: The exit code: 1 problems found, 2 usage, 3 a route test failed.
    """

    def __init__(self, message: str, *, code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
