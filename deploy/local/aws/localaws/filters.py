"""EC2 filters and paging: the rules that all Describe calls share.

A filter matches when any of its values does (`*` and `?` are wildcards, a backslash takes their
meaning away); several filters are ANDed. Pages are cut by key, not by position, so that a list
that changes between two pages neither repeats nor skips what stayed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from .errors import AwsError


@lru_cache(maxsize=4096)
def pattern(value: str) -> Callable[[str], bool]:
    if not any(c in value for c in "*?\\"):
        return value.__eq__
    out, i = [], 0
    while i < len(value):
        c = value[i]
        if c == "\\" and i + 1 < len(value):
            i += 1
            out.append(re.escape(value[i]))
        elif c == "*":
            out.append(".*")
        elif c == "?":
            out.append(".")
        else:
            out.append(re.escape(c))
        i += 1
    compiled = re.compile("".join(out), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


class Matcher:
    """A compiled `Filters` parameter. `fields` maps a filter's name to a function of the item that
    gives one value or several; tags are read with `tags`."""

    def __init__(
        self,
        filters: list[dict[str, Any]] | None,
        fields: dict[str, Callable[[Any], Any]],
        tags: Callable[[Any], dict[str, str]] | None = None,
    ):
        self.checks: list[Callable[[Any], bool]] = []
        for item in filters or []:
            name, values = item.get("Name", ""), item.get("Values") or []
            tests = [pattern(v) for v in values]
            self.checks.append(self._check(name, tests, fields, tags))

    def _check(self, name, tests, fields, tags):
        if tags and name.startswith("tag:"):
            key = name[4:]
            return lambda item: (v := tags(item).get(key)) is not None and any(t(v) for t in tests)
        if tags and name == "tag-key":
            return lambda item: any(t(k) for k in tags(item) for t in tests)
        if tags and name == "tag-value":
            return lambda item: any(t(v) for v in tags(item).values() for t in tests)
        read = fields.get(name)
        if read is None:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")

        def check(item: Any) -> bool:
            value = read(item)
            if value is None:
                return False
            if isinstance(value, (list, tuple, set)):
                return any(t(text(v)) for v in value for t in tests)
            return any(t(text(value)) for t in tests)

        return check

    def __call__(self, item: Any) -> bool:
        return all(check(item) for check in self.checks)


def text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return value if isinstance(value, str) else str(value)


def at(*path: str) -> Callable[[dict[str, Any]], Any]:
    """Reads a nested field; a list on the way gives all of its elements' values."""

    def read(item: Any) -> Any:
        for i, key in enumerate(path):
            if isinstance(item, list):
                rest = at(*path[i:])
                found: list[Any] = []
                for element in item:
                    value = rest(element)
                    found.extend(value if isinstance(value, list) else [value] if value is not None else [])
                return found
            item = (item or {}).get(key)
        return item

    return read


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": k, "Value": v} for k, v in tags.items()]


def tag_dict(tags: Iterable[dict[str, str]] | None) -> dict[str, str]:
    return {t["Key"]: t.get("Value", "") for t in tags or []}


def tags_for(specifications: list[dict[str, Any]] | None, kind: str) -> dict[str, str]:
    """The tags which a TagSpecifications parameter gives to one kind of resource."""
    found: dict[str, str] = {}
    for spec in specifications or []:
        if spec.get("ResourceType") == kind:
            found.update(tag_dict(spec.get("Tags")))
    return found


class Pager:
    """Cuts answers into pages. `limit` says how a test wants pages of this action shortened."""

    def __init__(self, limit: Callable[[str], int | None] = lambda action: None):
        self.limit = limit

    def page(
        self,
        action: str,
        items: list[Any],
        key: Callable[[Any], str],
        params: dict[str, Any],
        at_least: int = 1,
        at_most: int = 1000,
        default: int | None = None,
    ) -> tuple[list[Any], str | None]:
        """One page of `items`, which must be sorted by `key`, and the token of the next."""
        size = params.get("MaxResults")
        if size is not None and not at_least <= size <= at_most:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value between {at_least} and {at_most}.",
            )
        size = size or default
        start = self._start(items, key, params.get("NextToken"))
        forced = self.limit(action)
        if forced is not None:
            if forced == 0 and not params.get("NextToken") and items:
                return [], encode("")
            size = min(size or at_most, max(forced, 1))
        if not size or start + size >= len(items):
            return items[start:], None
        chosen = items[start : start + size]
        return chosen, encode(key(chosen[-1]))

    @staticmethod
    def _start(items: list[Any], key: Callable[[Any], str], token: str | None) -> int:
        if not token:
            return 0
        after = decode(token)
        low, high = 0, len(items)
        while low < high:
            middle = (low + high) // 2
            if key(items[middle]) <= after:
                low = middle + 1
            else:
                high = middle
        return low


class Listings:
    """The last few listings by what was asked, so that the pages of one are cut from one list. `key` must name everything
    that the list depends on."""

    MOST = 16

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._kept.get(key)
        if found is None:
            found = make()
            while len(self._kept) >= self.MOST:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = found
        return found


def encode(last: str) -> str:
    return base64.urlsafe_b64encode(f"after:{last}".encode()).decode()


def decode(token: str) -> str:
    try:
        value = base64.urlsafe_b64decode(token.encode()).decode()
    except ValueError:
        value = ""
    if not value.startswith("after:"):
        raise AwsError("InvalidNextToken", "The token provided is invalid")
    return value[6:]
