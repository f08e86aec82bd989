"""The processes of the cluster: how each is started and when it is ready. Services are elsewhere."""

import http.client
import json
import os
import ssl
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import api, files, kubeconfig, paths, ports, process, settings
from .failure import Failure
from .paths import Instance


@dataclass(frozen=True)
class Process:
    name: str
    command: list[str]
    ready: Callable[[], bool]
    # What a person would type to reach it.
    address: str
    environment: dict[str, str] | None = None


@dataclass(frozen=True)
class Cluster:
    """The processes of one instance, given its ports."""

    instance: Instance
    ports: dict[str, int]
    cluster_name: str = settings.CLUSTER_NAME

    @classmethod
    def existing(cls, instance: Instance, serving: bool = True) -> "Cluster":
        """The instance as a former `up` left it; its API server must run if `serving`."""
        record = files.read(instance.state / "cluster.json")
        if record is None or serving and not process.find(instance, "kube-apiserver"):
            raise Failure(f"no running stack in {instance.dir}: start it with `stack up`")
        return cls(instance, ports.of_cluster(instance), json.loads(record)["name"])

    def url(self, port: str, scheme: str = "http") -> str:
        return f"{scheme}://127.0.0.1:{self.ports[port]}"

    @property
    def endpoint(self) -> str:
        return self.url("kube-apiserver", "https")

    def write_configuration(self) -> None:
        instance = self.instance
        kubeconfig.write(instance.kubeconfig, kubeconfig.by_certificate(instance, self.endpoint, "admin"))
        for user in ("kube-controller-manager", "kube-scheduler"):
            kubeconfig.write(self._kubeconfig(user), kubeconfig.by_certificate(instance, self.endpoint, user))
        template = string.Template((paths.LOCAL / "jaeger" / "config.yaml").read_text())
        names = {name.upper().replace("-", "_"): str(port) for name, port in self.ports.items()}
        files.replace(self._jaeger_config, template.safe_substitute(names))
        stages = (paths.LOCAL / "kwok" / "stages.yaml").read_text()
        files.replace(self._kwok_config, with_pod_grace(stages) if os.environ.get("POD_GRACE") == "1" else stages)

    def _kubeconfig(self, user: str) -> Path:
        return self.instance.dir / "config" / f"{user}.kubeconfig"

    @property
    def _jaeger_config(self) -> Path:
        return self.instance.dir / "config" / "jaeger.yaml"

    @property
    def _kwok_config(self) -> Path:
        return self.instance.dir / "config" / "kwok-stages.yaml"

    def etcd(self) -> Process:
        command = [
            str(paths.program("etcd")),
            "--data-dir", str(self.instance.dir / "etcd"),
            "--listen-client-urls", self.url("etcd"), "--advertise-client-urls", self.url("etcd"),
            "--listen-peer-urls", self.url("etcd-peer"), "--initial-advertise-peer-urls", self.url("etcd-peer"),
            "--initial-cluster", f"default={self.url('etcd-peer')}",
            # Safe against killed processes, not against a power cut: right for a throw-away cluster, and much faster.
            "--unsafe-no-fsync", "--log-level", "warn",
        ]
        return Process("etcd", command, lambda: http_ok(self.ports["etcd"], "/health"), self.url("etcd"))

    def apiserver(self) -> Process:
        pki = self.instance.pki
        command = [
            str(paths.program("kube-apiserver")),
            f"--etcd-servers={self.url('etcd')}",
            "--bind-address=127.0.0.1", f"--secure-port={self.ports['kube-apiserver']}",
            # Loopback may not be advertised. A real kubelet's bridge serves this address; nothing else uses it.
            f"--advertise-address={settings.BRIDGE_ADDRESS}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt", "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
            f"--service-cluster-ip-range={settings.SERVICE_RANGE}", "--allow-privileged=true",
            f"--requestheader-client-ca-file={pki}/ca.crt", "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/front-proxy.crt", f"--proxy-client-key-file={pki}/front-proxy.key",
            "--kubelet-preferred-address-types=InternalIP", f"--kubelet-certificate-authority={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt", f"--kubelet-client-key={pki}/apiserver-kubelet.key",
            f"--audit-policy-file={paths.LOCAL}/kube/audit-policy.yaml", f"--audit-log-path={self.instance.logs}/audit.log",
            # Nothing balances load in front of it, so nothing has to be told that it is about to leave.
            "--shutdown-delay-duration=0s",
        ]
        client = api.Api(self.instance, self.ports["kube-apiserver"])
        return Process("kube-apiserver", command, client.ready, self.endpoint)

    def controller_manager(self) -> Process:
        pki, own = self.instance.pki, self._kubeconfig("kube-controller-manager")
        command = [
            str(paths.program("kube-controller-manager")),
            f"--kubeconfig={own}", f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}",
            "--bind-address=127.0.0.1", f"--secure-port={self.ports['kube-controller-manager']}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            "--leader-elect=false", "--use-service-account-credentials=true", "--allocate-node-cidrs=false",
            f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
            f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
            # With the default limits its many controllers take seconds longer to start.
            "--kube-api-qps=500", "--kube-api-burst=1000",
        ]
        return self._secure("kube-controller-manager", command)

    def scheduler(self) -> Process:
        pki, own = self.instance.pki, self._kubeconfig("kube-scheduler")
        command = [
            str(paths.program("kube-scheduler")),
            f"--kubeconfig={own}", f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}",
            "--bind-address=127.0.0.1", f"--secure-port={self.ports['kube-scheduler']}",
            f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000",
        ]
        return self._secure("kube-scheduler", command)

    def _secure(self, name: str, command: list[str]) -> Process:
        tls = ssl.create_default_context(cafile=str(self.instance.pki / "ca.crt"))
        return Process(name, command, lambda: http_ok(self.ports[name], "/healthz", tls), self.url(name, "https"))

    def kwok(self) -> Process:
        command = [
            str(paths.program("kwok")), f"--kubeconfig={self.instance.kubeconfig}",
            f"--config={self._kwok_config}",
            "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40", "--cidr=10.244.0.0/16", f"--server-address=127.0.0.1:{self.ports['kwok']}",
        ]
        # It reads ~/.kwok otherwise, where a person may keep other stages.
        environment = {**os.environ, "KWOK_WORKDIR": str(self.instance.dir / "kwok")}
        return Process("kwok", command, lambda: http_ok(self.ports["kwok"], "/healthz"), self.url("kwok"), environment)

    def jaeger(self) -> Process:
        command = [str(paths.program("jaeger")), "--config", str(self._jaeger_config)]
        return Process("jaeger", command, lambda: http_ok(self.ports["jaeger"], "/api/services"), self.url("jaeger"))

    def aws(self) -> Process | None:
        script = paths.LOCAL / "aws" / "server.py"
        if not script.exists():
            return None
        command = [
            str(paths.python()), "-u", str(script), "--host", "127.0.0.1", "--port", str(self.ports["aws"]),
            "--state", str(self.instance.dir / "aws"), "--control-port", str(self.ports["aws-control"]),
            "--cluster-name", self.cluster_name, "--cluster-endpoint", self.endpoint,
            "--cluster-ca", str(self.instance.pki / "ca.crt"),
        ]
        return Process(
            "aws", command, lambda: http_ok(self.ports["aws-control"], "/healthz"), self.url("aws"), self.aws_environment()
        )

    def seed_command(self) -> list[str] | None:
        script = paths.LOCAL / "aws" / "seed.py"
        if not script.exists():
            return None
        return [str(paths.python()), str(script), "--endpoint", self.url("aws"), "--cluster-name", self.cluster_name]

    def joiner(self) -> Process | None:
        script = paths.LOCAL / "joiner" / "joiner.py"
        if not script.exists():
            return None
        command = [
            str(paths.python()), "-u", str(script), "--kubeconfig", str(self.instance.kubeconfig),
            "--aws-endpoint", self.url("aws"), "--region", settings.REGION, "--cluster-name", self.cluster_name,
        ]
        log = self.instance.log("joiner")
        # Its log is appended to: only what this start wrote counts.
        before = log.stat().st_size if log.exists() else 0

        def ready() -> bool:
            try:
                with open(log, "rb") as written:
                    written.seek(before)
                    return b"joiner ready" in written.read()
            except FileNotFoundError:
                return False

        return Process("joiner", command, ready, "-", self.aws_environment())

    def aws_environment(self) -> dict[str, str]:
        own = {"AWS_CONTROL_URL": self.url("aws-control")}
        return {**without_foreign_settings(dict(os.environ)), **self.client_settings(), **own}

    def client_settings(self) -> dict[str, str]:
        """What any AWS client needs to find the local AWS and nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.url("aws"),
            "AWS_REGION": settings.REGION,
            "AWS_DEFAULT_REGION": settings.REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            **settings.AWS_CREDENTIALS,
        }


def with_pod_grace(stages: str) -> str:
    """Deleted pods take their grace period unless they are annotated, instead of the other way round."""
    own, other = '.metadata.annotations["localstack/use-grace"]', '.metadata.annotations["localstack/no-grace"]'
    at_once = f"{{key: '{own}', operator: DoesNotExist}}"
    late = f"{{key: '{own}', operator: Exists}}"
    if at_once not in stages or late not in stages:
        raise Failure("kwok/stages.yaml has no stage for pods that use their grace period")
    return stages.replace(at_once, f"{{key: '{other}', operator: Exists}}").replace(
        late, f"{{key: '{other}', operator: DoesNotExist}}"
    )


def without_foreign_settings(environment: dict[str, str]) -> dict[str, str]:
    """A person's own AWS account and cluster must never be reached from here."""
    foreign = ("AWS_", "OTEL_", "KUBECONFIG", "KUBERNETES_SERVICE_", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    return {name: value for name, value in environment.items() if not name.startswith(foreign)}


def http_ok(port: int, path: str, tls: ssl.SSLContext | None = None) -> bool:
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


