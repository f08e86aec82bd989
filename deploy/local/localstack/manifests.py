"""Objects that every instance has: our CRDs, accounts and rights."""

from collections.abc import Callable

from . import api, files, paths, rights
from .api import Api
from .failure import Failure

CRDS = paths.REPOSITORY / "charts" / "karpenter-crd"
ESTABLISHED_SECONDS = 60


def apply(client: Api, say: Callable[[str], None]) -> None:
    definitions = [
        document
        for path in api.files_below(CRDS / "files")
        for document in api.documents(path.read_text())
    ]
    for path in api.files_below(paths.LOCAL / "manifests"):
        for document in api.documents(path.read_text()):
            client.apply(document)
    for document in rights.documents():
        client.apply(document)
    if not definitions:
        say("no CRDs: charts/karpenter-crd is empty")
        return
    for document in definitions:
        client.apply(document)
    for document in definitions:
        if document.kind == "CustomResourceDefinition":
            _established(client, document.name)


def _established(client: Api, name: str) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"

    def established() -> bool:
        conditions = client.get(path).get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    if not files.until(established, ESTABLISHED_SECONDS):
        raise Failure(f"the API server did not accept CRD {name}; see `kubectl describe crd {name}`")
