"""Names that the stack, the services and the tests agree on."""

SERVICES = ("provisioner", "disruption", "termination", "interruption-watcher", "pricing-cache")
OPERATOR = "operator"

NAMESPACE = "kube-system"
REGION = "us-west-2"
CLUSTER_NAME = "local"
RPC_AUDIENCE = "rpc.karpenter.sh"

# Any value will do for the local AWS; the SDKs insist on one.
AWS_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
