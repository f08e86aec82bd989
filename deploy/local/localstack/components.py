"""What is built, from which pinned module, and how long that takes. Facts only."""

from dataclasses import dataclass, field

KUBERNETES = "v1.35.4"
_MAJOR, _MINOR, _ = KUBERNETES.removeprefix("v").split(".")

# Without these the API server reports v0.0.0 and clients judge its features by that.
_KUBERNETES_FLAGS = " ".join(
    [
        f"-X k8s.io/component-base/version.gitVersion={KUBERNETES}",
        f"-X k8s.io/component-base/version.gitMajor={_MAJOR}",
        f"-X k8s.io/component-base/version.gitMinor={_MINOR}",
        f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}",
    ]
)


@dataclass(frozen=True)
class Component:
    name: str
    version: str
    # Directory below deploy/local that holds go.mod and go.sum; empty for the Python environment.
    module: str
    package: str
    # Minutes on two free cores with empty caches, in the order of the table.
    minutes: float
    linker_flags: str = ""
    # Names under which the same file is started.
    links: tuple[str, ...] = field(default=())


COMPONENTS = {
    each.name: each
    for each in (
        Component(
            "kube", KUBERNETES, "kube", ".", 9, _KUBERNETES_FLAGS,
            ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        ),
        Component("kwok", "v0.8.0", "tools/kwok", "sigs.k8s.io/kwok/cmd/kwok", 2),
        Component("grpcurl", "v1.9.4", "tools/grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl", 1.5),
        Component("jaeger", "v1.76.0", "jaeger", "github.com/jaegertracing/jaeger/cmd/jaeger", 7),
        Component("venv", "moto 5.2.5", "", "", 2),
        Component("helm", "v4.3.1", "tools/helm", "helm.sh/helm/v4/cmd/helm", 3),
        Component("kubelet", KUBERNETES, "kube", "k8s.io/kubernetes/cmd/kubelet", 1, _KUBERNETES_FLAGS),
        Component("kube-proxy", KUBERNETES, "kube", "k8s.io/kubernetes/cmd/kube-proxy", 0.5, _KUBERNETES_FLAGS),
        Component("kubectl", KUBERNETES, "kube", "k8s.io/kubernetes/cmd/kubectl", 1, _KUBERNETES_FLAGS),
        Component("coredns", "v1.14.7", "tools/coredns", "github.com/coredns/coredns", 5),
        Component("pause", "", "tools/pause", ".", 0.1),
    )
}

NEEDED = ("kube", "kwok", "grpcurl", "jaeger", "venv")
NODE = ("kubelet", "kube-proxy", "coredns", "pause")
EVERYTHING = tuple(COMPONENTS)
