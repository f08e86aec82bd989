"""kubelet command-line flags as user data carries them, and the small grammars inside them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field


class Garbled(Exception):
    """User data that a real image could not boot from; the text says why."""


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    def describe(self) -> dict[str, str]:
        return {"key": self.key, "effect": self.effect, **({"value": self.value} if self.value else {})}


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass
class Kubelet:
    """What user data settles about the kubelet. None means: the image's own default."""

    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Taint] = field(default_factory=list)
    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: dict[str, str] = field(default_factory=dict)
    system_reserved: dict[str, str] = field(default_factory=dict)
    eviction_hard: dict[str, str] = field(default_factory=dict)


def pairs(text: str, separator: str = "=") -> dict[str, str]:
    """`a=b,c=d` as a dict; an entry without the separator is garbled."""
    found = {}
    for entry in filter(None, text.strip().strip("\"'").split(",")):
        key, mark, value = entry.partition(separator)
        if not mark or not key:
            raise Garbled(f"{entry!r} is not of the form key{separator}value")
        found[key.strip()] = value.strip().strip("\"'")
    return found


def taint(text: str) -> Taint:
    """`key=value:Effect`, `key:Effect` or `key=:Effect`."""
    rest, mark, effect = text.strip().rpartition(":")
    if not mark or effect not in EFFECTS:
        raise Garbled(f"taint {text!r} has no effect out of {', '.join(EFFECTS)}")
    key, _, value = rest.partition("=")
    if not key:
        raise Garbled(f"taint {text!r} has no key")
    return Taint(key, value, effect)


def taints(text: str) -> list[Taint]:
    return [taint(entry) for entry in filter(None, text.strip().strip("\"'").split(","))]


def number(name: str, text: str) -> int:
    try:
        return int(text.strip("\"'"))
    except ValueError:
        raise Garbled(f"{name} is {text!r}, not a number") from None


def apply(kubelet: Kubelet, words: list[str]) -> None:
    """Applies `--flag=value` and `--flag value` words as the kubelet reads them: the last one wins,
    except that labels add up."""
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("--"):
            raise Garbled(f"kubelet would refuse the argument {word!r}")
        name, mark, value = word[2:].partition("=")
        if not mark and i < len(words) and not words[i].startswith("--"):
            value = words[i]
            i += 1
        if name == "node-labels":
            kubelet.labels.update(pairs(value))
        elif name == "register-with-taints":
            kubelet.taints = taints(value)
        elif name == "max-pods":
            kubelet.max_pods = number(name, value)
        elif name == "pods-per-core":
            kubelet.pods_per_core = number(name, value)
        elif name == "kube-reserved":
            kubelet.kube_reserved.update(pairs(value))
        elif name == "system-reserved":
            kubelet.system_reserved.update(pairs(value))
        elif name == "eviction-hard":
            kubelet.eviction_hard.update(pairs(value, "<"))


def words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise Garbled(f"unbalanced quotes in kubelet arguments: {error}") from None
