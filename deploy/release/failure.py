"""The one error of a release: what is wrong and what to do, without a stack trace."""


class Failure(Exception):
    pass
