"""`env` and `trust.pem` of an instance: all that a person or a tool needs to use it from outside."""

import shlex

from . import files, paths, settings
from .api import Api
from .paths import Instance
from .process import Running
from .processes import Cluster


def variables(cluster: Cluster, services: list[Running], operator_token: str | None) -> dict[str, str]:
    """Exported names in the order in which they are written. Of several replicas the first is named."""
    instance = cluster.instance
    values = {
        "KUBECONFIG": str(instance.kubeconfig),
        **{name: value for name, value in cluster.client_settings().items()},
        "AWS_CONTROL_URL": cluster.url("aws-control"),
        "CLUSTER_NAME": cluster.cluster_name,
        "CLUSTER_ENDPOINT": cluster.endpoint,
        "INTERRUPTION_QUEUE": cluster.cluster_name,
        "JAEGER_URL": cluster.url("jaeger"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": cluster.url("otlp-grpc"),
        "GRPCURL": str(paths.program("grpcurl")),
        # Meant to be used unquoted; the header's value has a blank, so grpcurl takes it from the environment.
        "GRPCURL_FLAGS": f"-cacert {instance.trust} -expand-headers -H authorization:${{GRPCURL_AUTHORIZATION}}",
    }
    if operator_token:
        values["GRPCURL_AUTHORIZATION"] = f"Bearer {operator_token}"
    for service in settings.SERVICES:
        replicas = [each for each in services if each.facts["service"] == service]
        if replicas:
            first = min(replicas, key=lambda each: each.facts["replica"])
            suffix = service.upper().replace("-", "_")
            values[f"GRPC_{suffix}"] = first.facts["grpc"]
            values[f"ADMIN_{suffix}"] = first.facts["admin"]
    return values


def render(values: dict[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in values.items())


def write(cluster: Cluster, services: list[Running]) -> None:
    token = files.read(cluster.instance.account(settings.OPERATOR) / "rpc-token")
    files.replace(cluster.instance.environment, render(variables(cluster, services, token)), 0o600)


def write_trust(instance: Instance, client: Api) -> None:
    """All certificates that services have published, so that grpcurl can check whom it talks to."""
    published = client.get(f"/api/v1/namespaces/{settings.NAMESPACE}/configmaps")["items"]
    files.replace(instance.trust, certificates_of(published))


def certificates_of(config_maps: list[dict]) -> str:
    names = {f"karpenter-{service}-trust" for service in settings.SERVICES}
    found = []
    for each in sorted(config_maps, key=lambda item: item["metadata"]["name"]):
        if each["metadata"]["name"] in names:
            data = each.get("data") or {}
            found += [data[key].strip() + "\n" for key in sorted(data) if key.endswith(".pem")]
    return "".join(found)
