"""The one error type that handlers raise; the gateway renders it in the protocol of the caller."""

from __future__ import annotations


class AwsError(Exception):
    """An AWS error answer: code, message and the HTTP status that EC2 uses for it."""

    _STATUS = {
        "DryRunOperation": 412,
        "RequestLimitExceeded": 503,
        "Unavailable": 503,
        "ServiceUnavailable": 503,
        "InternalError": 500,
        "InternalFailure": 500,
        "UnauthorizedOperation": 403,
        "AccessDenied": 403,
        "AccessDeniedException": 403,
    }

    def __init__(self, code: str, message: str, status: int | None = None):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status or self._STATUS.get(code, 400)


def dry_run() -> AwsError:
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")


def missing(parameter: str) -> AwsError:
    return AwsError("MissingParameter", f"The request must contain the parameter {parameter}")
