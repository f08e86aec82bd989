//! Every label, annotation, taint and finalizer key of the API, in one place; which of them are well known, aliased or
//! restricted, and which have a closed set of values.
//!
//! Only names and rules about names. What a label's value is for a given instance type is decided where types are built.

mod annotations;
mod aws;
mod rules;
#[cfg(test)]
mod tests;

pub use annotations::*;
pub use aws::*;
pub use rules::*;

// Groups, which are also label domains.
pub const KARPENTER_DOMAIN: &str = "karpenter.sh";
pub const KARPENTER_AWS_DOMAIN: &str = "karpenter.k8s.aws";

// Upstream Kubernetes labels.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const ARCH: &str = "kubernetes.io/arch";
pub const OS: &str = "kubernetes.io/os";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";
pub const WINDOWS_BUILD: &str = "node.kubernetes.io/windows-build";

// Labels of the core.
pub const NODEPOOL: &str = "karpenter.sh/nodepool";
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub const REGISTERED: &str = "karpenter.sh/registered";
pub const INITIALIZED: &str = "karpenter.sh/initialized";
pub const DO_NOT_SYNC_TAINTS: &str = "karpenter.sh/do-not-sync-taints";

// Values.
pub const ON_DEMAND: &str = "on-demand";
pub const SPOT: &str = "spot";
pub const RESERVED: &str = "reserved";
pub const TENANCY_DEFAULT: &str = "default";
pub const TENANCY_DEDICATED: &str = "dedicated";
pub const AMD64: &str = "amd64";
pub const ARM64: &str = "arm64";
pub const LINUX: &str = "linux";
pub const WINDOWS: &str = "windows";
/// What Karpenter writes into its boolean labels and annotations.
pub const TRUE: &str = "true";
