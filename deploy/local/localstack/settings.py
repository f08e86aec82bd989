"""Names that the stack, the services and the tests agree on."""

SERVICES = ("provisioner", "disruption", "termination", "interruption-watcher", "pricing-cache")
OPERATOR = "operator"

NAMESPACE = "kube-system"
REGION = "us-west-2"
CLUSTER_NAME = "local"

# Where pods of a real kubelet find what runs on this machine: the bridge of that node (see kubelet.py).
BRIDGE_ADDRESS = "10.245.0.1"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"

# Any value will do for the local AWS; the SDKs insist on one.
AWS_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
