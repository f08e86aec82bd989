"""The table of EC2 calls that we answer ourselves. A handler gets the call's context and its parsed
parameters and returns the answer as a dict in the shape of the API's output, or raises AwsError."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import dry_run

if TYPE_CHECKING:
    from .world import World

Handler = Callable[["Call", dict[str, Any]], dict[str, Any]]
EC2: dict[str, Handler] = {}


@dataclass
class Call:
    world: "World"
    region: str
    access_key: str
    action: str


def ec2(action: str, checks_first: bool = False) -> Callable[[Handler], Handler]:
    """Registers a handler. With `checks_first` it validates before it honours DryRun itself."""

    def register(handler: Handler) -> Handler:
        if checks_first:
            EC2[action] = handler
        else:

            def wrapped(call: Call, params: dict[str, Any]) -> dict[str, Any]:
                if params.get("DryRun"):
                    raise dry_run()
                return handler(call, params)

            EC2[action] = wrapped
        return handler

    return register
