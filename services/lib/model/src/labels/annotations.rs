//! Annotations, taint keys and finalizers.

pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// W3C traceparent of the node's life, set when the claim is created; every later span of any service continues it. Ours.
pub const TRACEPARENT: &str = "karpenter.sh/traceparent";
/// Pods that a claim was made for, as the first ten digits of their UIDs, comma separated. Ours: so that no other leader
/// provides for them again.
pub const NOMINATED_PODS: &str = "karpenter.sh/promised-pods";
/// The disruption command that a claim replaces nodes for (its id), or is removed by (a JSON note). Ours: the same command
/// never creates twice, and any leader can go on with it.
pub const COMMAND: &str = "karpenter.sh/disruption-command";
pub const NODEPOOL_HASH: &str = "karpenter.sh/nodepool-hash";
pub const NODEPOOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
pub const EC2NODECLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
pub const EC2NODECLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// RFC 3339; the hard deadline of a NodeClaim's drain.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";
pub const PRICE_OVERLAY_APPLIED: &str = "karpenter.sh/price-overlay-applied";
pub const CAPACITY_OVERLAY_APPLIED: &str = "karpenter.sh/capacity-overlay-applied";
/// Sorted, comma separated.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";
/// Subnet that the instance was launched into. Ours: disruption has no right to ask EC2.
pub const LAUNCHED_SUBNET: &str = "karpenter.k8s.aws/launched-subnet";
/// Security groups that the instance was launched with, sorted, comma separated. Ours.
pub const LAUNCHED_SECURITY_GROUPS: &str = "karpenter.k8s.aws/launched-security-groups";
/// Claims that differ in nothing but their name and were created together carry the same id, and so do the instances of the fleet
/// requests that they share, as a tag. It ends with how many claims there were. Ours.
pub const LAUNCH_BATCH: &str = "karpenter.k8s.aws/launch-batch";
/// When a process looked for instances that an earlier one may have launched for the claim. Ours.
pub const LAUNCH_RECOVERED: &str = "karpenter.k8s.aws/launch-recovered-at";
pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
pub const CAPACITY_BUFFER_FAKE_POD: &str = "karpenter.sh/capacity-buffer-fake-pod";
pub const CAPACITY_BUFFER_NAME: &str = "karpenter.sh/capacity-buffer-name";
pub const CAPACITY_BUFFER_NAMESPACE: &str = "karpenter.sh/capacity-buffer-namespace";
/// On a NodePool: with this value its nodes are looked at once without the wait of `consolidateAfter`.
pub const EVALUATE_NOW: &str = "karpenter.sh/disruption-reason";
pub const MANUAL_CONSOLIDATION: &str = "manual-consolidation";
/// On a NodePool: `true` lets consolidation replace several of its nodes by several cheaper ones. Ours.
pub const MANY_FOR_MANY: &str = "karpenter.sh/consolidation-many-for-many";
/// On a NodePool: least saving of a consolidation, as a share (`5%`) or in dollars an hour (`0.02`). Ours.
pub const MINIMUM_SAVING: &str = "karpenter.sh/consolidation-minimum-saving";
/// On a NodePool: time between two consolidations of its nodes, such as `10m`. Ours.
pub const COOL_DOWN: &str = "karpenter.sh/consolidation-cool-down";
/// On a NodePool: longest time in which a replacement must have paid for itself, such as `4h`. Ours.
pub const LONGEST_PAYBACK: &str = "karpenter.sh/consolidation-longest-payback";
/// On a NodePool: what moving one pod costs, in dollars, to be earned within an hour where nodes are replaced; `0` turns it off. Ours.
pub const COST_PER_POD: &str = "karpenter.sh/consolidation-cost-per-pod";
/// On a NodePool: no voluntary disruption before this time (RFC 3339). Ours.
pub const PAUSED_UNTIL: &str = "karpenter.sh/disruption-paused-until";
/// Reserved by the API and unused.
pub const PROVIDER_COMPATIBILITY: &str = "compatibility.karpenter.sh/provider";
/// Kubernetes' own; weighs into disruption cost.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Key of the NoExecute taint a node carries from boot to registration.
pub const UNREGISTERED_TAINT: &str = "karpenter.sh/unregistered";
/// Key of the NoSchedule taint of a node chosen for disruption or in termination.
pub const DISRUPTED_TAINT: &str = "karpenter.sh/disrupted";
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";
pub const CLOUD_UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Any taint key under this prefix holds back initialisation.
pub const READINESS_TAINT_PREFIX: &str = "readiness.k8s.io/";

/// Finalizer of NodeClaims and Nodes.
pub const TERMINATION_FINALIZER: &str = "karpenter.sh/termination";
/// Finalizer of EC2NodeClasses.
pub const EC2NODECLASS_FINALIZER: &str = "karpenter.k8s.aws/termination";
