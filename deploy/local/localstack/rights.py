"""What our services and people may do, read from the chart: the local cluster must not be more generous than an installation."""

import json

from . import paths, settings
from .api import Document

CHART = paths.REPOSITORY / "charts" / "karpenter"
RBAC = "rbac.authorization.k8s.io"


def objects(service: str) -> list[dict]:
    """The roles and bindings of one service, as the chart makes them."""
    shared = json.loads((CHART / "files" / "rights.json").read_text())
    own = json.loads((CHART / "charts" / service / "rights.json").read_text())
    name = f"karpenter-{service}"
    made = [*_pair("ClusterRole", name, "", shared["cluster"] + own["cluster"], name)]
    made += _pair("Role", name, settings.NAMESPACE, shared["namespace"] + own["namespace"], name)
    if rules := own.get("kubeSystem"):
        made += _pair("Role", f"{name}-dns", "kube-system", rules, name)
    return made


def of_people() -> list[dict]:
    """The accounts that `kubectl karpenter` shows tokens of, and the Roles that people are bound to, as the chart makes them."""
    made = []
    for name, rights in json.loads((CHART / "files" / "people.json").read_text()).items():
        metadata = {"name": name, "namespace": settings.NAMESPACE}
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False})
        made += _pair("ClusterRole", name, "", rights["account"], name)
        made.append(_role("Role", name, settings.NAMESPACE, rights["person"]))
    return made


def _pair(kind: str, name: str, namespace: str, rules: list[dict], account: str) -> list[dict]:
    role = _role(kind, name, namespace, rules)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": settings.NAMESPACE}
    return [
        role,
        {
            "apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": role["metadata"],
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}, "subjects": [subject],
        },
    ]


def _role(kind: str, name: str, namespace: str, rules: list[dict]) -> dict:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    plain = [{key: value for key, value in rule.items() if key not in ("why", "rare")} for rule in rules]
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": plain}


def documents() -> list[Document]:
    return [
        Document(json.dumps(each), each["apiVersion"], each["kind"], each["metadata"]["name"], each["metadata"].get("namespace", ""))
        for each in [*(made for service in settings.SERVICES for made in objects(service)), *of_people()]
    ]
