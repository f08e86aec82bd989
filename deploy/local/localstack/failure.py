"""The one error that ends a command with a message instead of a traceback."""


class Failure(Exception):
    """What went wrong and what the reader can do; `code` becomes the exit code."""

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code
