"""User data as each image family reads it at boot: nodeadm (AL2023), bootstrap.sh (AL2), Bottlerocket's
settings and the EKS bootstrap script of Windows. Pure: bytes in, `Bootstrap` out, `Garbled` when a
real image would not come up with it.
"""

from __future__ import annotations

import email
import email.policy
import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

import yaml

from . import flags
from .flags import Garbled, Kubelet, Taint

FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows")


@dataclass
class Bootstrap:
    family: str
    cluster: str
    endpoint: str
    ca: str  # base64
    kubelet: Kubelet = field(default_factory=Kubelet)
    raid0: bool = False


def family_of_image(name: str) -> str | None:
    """Which reader an image has, by the name that AWS gives it; None for a custom image."""
    if name.startswith("bottlerocket-"):
        return "Bottlerocket"
    if name.startswith("Windows_Server-"):
        return "Windows"
    if name.startswith("amazon-eks-node-al2023-"):
        return "AL2023"
    if name.startswith(("amazon-eks-node-", "amazon-eks-arm64-node-", "amazon-eks-gpu-node-")):
        return "AL2"
    return None


def parse(data: bytes, family: str | None) -> Bootstrap:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Garbled("user data is not text") from None
    if not text.strip():
        raise Garbled("there is no user data")
    family = family or guess(text)
    if family == "AL2023":
        return nodeadm(text)
    if family == "AL2":
        return bootstrap_sh(text)
    if family == "Bottlerocket":
        return bottlerocket(text)
    return windows(text)


def guess(text: str) -> str:
    """The family that user data was written for, where the image does not tell."""
    if "<powershell>" in text:
        return "Windows"
    if "node.eks.aws/" in text:
        return "AL2023"
    if "/etc/eks/bootstrap.sh" in text:
        return "AL2"
    if "[settings" in text or re.search(r"^settings\.", text, re.M):
        return "Bottlerocket"
    raise Garbled("user data starts no kubelet that is known here")


# ---- MIME


def parts(text: str) -> list[tuple[str, str]]:
    """(content type, content) of each part; text that is not MIME is one part without a type."""
    stripped = text.lstrip()
    if not stripped.startswith(("MIME-Version:", "Content-Type:")):
        return [("", text)]
    message = email.message_from_string(stripped, policy=email.policy.default)
    if not message.is_multipart():
        raise Garbled("the MIME document has no parts; is its boundary right?")
    found = []
    for part in message.iter_parts():
        content = part.get_payload(decode=True)
        found.append((part.get_content_type(), (content or b"").decode(errors="replace")))
    return found


# ---- AL2023


def nodeadm(text: str) -> Bootstrap:
    config: dict[str, Any] = {}
    arguments: list[str] = []
    found = False
    for kind, content in parts(text):
        if kind not in ("", "application/node.eks.aws"):
            continue
        try:
            documents = list(yaml.safe_load_all(content))
        except yaml.YAMLError as error:
            if not kind:
                raise Garbled(f"not a NodeConfig: {error}") from None
            raise Garbled(f"a NodeConfig is not YAML: {error}") from None
        for document in documents:
            if not isinstance(document, dict) or not str(document.get("apiVersion", "")).startswith("node.eks.aws/"):
                if kind:
                    raise Garbled("a part says it is a NodeConfig but has no apiVersion node.eks.aws")
                continue
            if document.get("kind") != "NodeConfig":
                raise Garbled(f"unknown kind {document.get('kind')} in node.eks.aws")
            found = True
            spec = document.get("spec") or {}
            arguments += (spec.get("kubelet") or {}).get("flags") or []
            config = merge(config, spec)
    if not found:
        raise Garbled("nodeadm found no NodeConfig")
    cluster = config.get("cluster") or {}
    for name in ("name", "apiServerEndpoint", "certificateAuthority", "cidr"):
        if not cluster.get(name):
            raise Garbled(f"NodeConfig has no cluster.{name}")
    kubelet = Kubelet()
    settings = (config.get("kubelet") or {}).get("config") or {}
    kubelet.max_pods = settings.get("maxPods")
    kubelet.pods_per_core = settings.get("podsPerCore")
    kubelet.kube_reserved = texts(settings.get("kubeReserved"))
    kubelet.system_reserved = texts(settings.get("systemReserved"))
    kubelet.eviction_hard = texts(settings.get("evictionHard"))
    for entry in settings.get("registerWithTaints") or []:
        if entry.get("effect") not in flags.EFFECTS or not entry.get("key"):
            raise Garbled(f"kubelet would refuse the taint {entry}")
        kubelet.taints.append(Taint(entry["key"], str(entry.get("value") or ""), entry["effect"]))
    # Each flag is one argument, without a shell between, but quotes inside it are common.
    flags.apply(kubelet, [strip_quotes(a) for a in arguments])
    storage = ((config.get("instance") or {}).get("localStorage") or {}).get("strategy")
    return Bootstrap(
        "AL2023",
        str(cluster["name"]),
        str(cluster["apiServerEndpoint"]),
        str(cluster["certificateAuthority"]),
        kubelet,
        str(storage).upper() == "RAID0",
    )


def strip_quotes(argument: str) -> str:
    name, mark, value = argument.partition("=")
    if mark and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return f"{name}={value[1:-1]}"
    return argument


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def texts(given: dict[str, Any] | None) -> dict[str, str]:
    return {k: str(v) for k, v in (given or {}).items()}


# ---- AL2


def bootstrap_sh(text: str) -> Bootstrap:
    script = "\n".join(c for kind, c in parts(text) if kind in ("", "text/x-shellscript"))
    joined = re.sub(r"\\\n", " ", script)
    line = next((x for x in joined.splitlines() if "/etc/eks/bootstrap.sh" in x and not x.lstrip().startswith("#")), None)
    if line is None:
        raise Garbled("no part runs /etc/eks/bootstrap.sh")
    words = flags.words(line)
    words = words[next(i for i, w in enumerate(words) if w.endswith("/etc/eks/bootstrap.sh")) + 1 :]
    options: dict[str, str] = {}
    cluster = ""
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("--"):
            cluster = word
            continue
        name, mark, value = word[2:].partition("=")
        if not mark:
            if i >= len(words):
                raise Garbled(f"bootstrap.sh: --{name} has no value")
            value = words[i]
            i += 1
        options[name] = value
    if not cluster:
        raise Garbled("bootstrap.sh is given no cluster name")
    kubelet = Kubelet()
    flags.apply(kubelet, flags.words(options.get("kubelet-extra-args", "")))
    return Bootstrap(
        "AL2",
        cluster,
        options.get("apiserver-endpoint", ""),
        options.get("b64-cluster-ca", ""),
        kubelet,
        options.get("local-disks") == "raid0",
    )


# ---- Bottlerocket


def bottlerocket(text: str) -> Bootstrap:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Garbled(f"Bottlerocket cannot read its settings: {error}") from None
    settings = (document.get("settings") or {}).get("kubernetes") or {}
    for name in ("cluster-name", "api-server", "cluster-certificate"):
        if not settings.get(name):
            raise Garbled(f"Bottlerocket has no settings.kubernetes.{name}")
    kubelet = Kubelet()
    kubelet.labels = texts(settings.get("node-labels"))
    for key, values in (settings.get("node-taints") or {}).items():
        for value in values if isinstance(values, list) else [values]:
            before, mark, effect = str(value).rpartition(":")
            if not mark or effect not in flags.EFFECTS:
                raise Garbled(f"Bottlerocket would refuse the taint {key} = {value!r}")
            kubelet.taints.append(Taint(key, before, effect))
    if settings.get("max-pods") is not None:
        kubelet.max_pods = flags.number("max-pods", str(settings["max-pods"]))
    kubelet.kube_reserved = texts(settings.get("kube-reserved"))
    kubelet.system_reserved = texts(settings.get("system-reserved"))
    kubelet.eviction_hard = texts(settings.get("eviction-hard"))
    commands = (document["settings"].get("bootstrap-commands") or {}).values()
    raid = any("ephemeral-storage" in str(c.get("commands")) for c in commands if isinstance(c, dict))
    return Bootstrap(
        "Bottlerocket",
        settings["cluster-name"],
        settings["api-server"],
        settings["cluster-certificate"],
        kubelet,
        raid,
    )


# ---- Windows

ARGUMENT = re.compile(r"-(\w+)\s+(?:'((?:[^']|'')*)'|\"([^\"]*)\"|(\S+))")


def windows(text: str) -> Bootstrap:
    match = re.search(r"<powershell>(.*)</powershell>", text, re.S)
    if not match:
        raise Garbled("there is no <powershell> block")
    script = match.group(1)
    call = next((x for x in script.splitlines() if "EKSClusterName" in x and not x.lstrip().startswith("#")), None)
    if call is None:
        raise Garbled("the EKS bootstrap script is not called")
    options = {m[1]: m[2] or m[3] or m[4] or "" for m in ARGUMENT.finditer(call)}
    if not options.get("EKSClusterName"):
        raise Garbled("the EKS bootstrap script is given no -EKSClusterName")
    kubelet = Kubelet()
    flags.apply(kubelet, flags.words(options.get("KubeletExtraArgs", "").replace("''", "'")))
    return Bootstrap(
        "Windows", options["EKSClusterName"], options.get("APIServerEndpoint", ""), options.get("Base64ClusterCA", ""), kubelet
    )
