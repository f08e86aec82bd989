"""What a test may ask of an instance's boot, by tags on the instance or by rules on the control path.
Pure. A tag beats a rule; of several rules that match, the later beats the earlier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PREFIX = "localstack/"


@dataclass
class Controls:
    boot_delay_ms: float = 0
    never_join: bool = False
    never_ready: bool = False
    gpu_delay_ms: float = 0
    agent_taints: list[str] = field(default_factory=list)
    agent_after_ms: float = 0
    ready_after_ms: float = 0
    uninitialized_ms: float = 0
    memory_percent: float = 100


def controls(tags: dict[str, str], rules: list[dict[str, Any]]) -> Controls:
    out = Controls()
    for rule in rules:
        if all(tags.get(k) == v for k, v in (rule.get("match") or {}).items()):
            out.boot_delay_ms = float(rule.get("bootDelayMs", out.boot_delay_ms))
            out.never_join = bool(rule.get("neverJoin", out.never_join))
            out.never_ready = bool(rule.get("neverReady", out.never_ready))
            out.gpu_delay_ms = float(rule.get("gpuDelayMs", out.gpu_delay_ms))
            out.agent_taints = list(rule.get("agentTaints", out.agent_taints))
            out.agent_after_ms = float(rule.get("agentAfterMs", out.agent_after_ms))
            out.ready_after_ms = float(rule.get("readyAfterMs", out.ready_after_ms))
            out.uninitialized_ms = float(rule.get("uninitializedMs", out.uninitialized_ms))
            out.memory_percent = float(rule.get("memoryPercent", out.memory_percent))
    own = {k[len(PREFIX) :]: v for k, v in tags.items() if k.startswith(PREFIX)}
    out.boot_delay_ms = number(own.get("boot-delay-ms"), out.boot_delay_ms)
    out.gpu_delay_ms = number(own.get("gpu-delay-ms"), out.gpu_delay_ms)
    out.agent_after_ms = number(own.get("agent-after-ms"), out.agent_after_ms)
    out.ready_after_ms = number(own.get("ready-after-ms"), out.ready_after_ms)
    out.uninitialized_ms = number(own.get("uninitialized-ms"), out.uninitialized_ms)
    out.memory_percent = number(own.get("memory-percent"), out.memory_percent)
    out.never_join = truth(own.get("never-join"), out.never_join)
    out.never_ready = truth(own.get("never-ready"), out.never_ready)
    if own.get("agent-taints"):
        out.agent_taints = [key.strip() for key in own["agent-taints"].split(",") if key.strip()]
    return out


def number(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        return default


def truth(text: str | None, default: bool) -> bool:
    return default if text is None else text.lower() in ("", "true", "1", "yes")
