//! Rules about label keys: aliases, the well-known set, restricted keys and closed value sets.

use super::*;

/// Old or provider-specific spellings and the key they stand for.
pub const ALIASES: [(&str, &str); 6] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    ("beta.kubernetes.io/arch", ARCH),
    ("beta.kubernetes.io/os", OS),
    ("beta.kubernetes.io/instance-type", INSTANCE_TYPE),
    ("topology.ebs.csi.aws.com/zone", ZONE),
];

/// Keys whose values come from instance types and offerings, so that a planned node may leave them undefined. Sorted.
pub const WELL_KNOWN: [&str; 36] = [
    CAPACITY_RESERVATION_ID,
    CAPACITY_RESERVATION_INTERRUPTIBLE,
    CAPACITY_RESERVATION_TYPE,
    INSTANCE_ACCELERATOR_COUNT,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
    INSTANCE_EBS_BANDWIDTH,
    INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_MEMORY,
    INSTANCE_GPU_NAME,
    INSTANCE_HYPERVISOR,
    INSTANCE_LOCAL_NVME,
    INSTANCE_MEMORY,
    INSTANCE_NETWORK_BANDWIDTH,
    INSTANCE_SIZE,
    INSTANCE_TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    CAPACITY_TYPE,
    NODEPOOL,
    ARCH,
    OS,
    INSTANCE_TYPE,
    WINDOWS_BUILD,
    ZONE_ID,
    REGION,
    ZONE,
];

/// The key that `key` stands for: itself, unless it is an alias.
#[must_use]
pub fn normalize(key: &str) -> &str {
    ALIASES.iter().find_map(|(alias, canonical)| (*alias == key).then_some(*canonical)).unwrap_or(key)
}

#[must_use]
pub fn is_well_known(key: &str) -> bool {
    WELL_KNOWN.binary_search(&key).is_ok()
}

/// The values a key may take, where the API closes the set.
#[must_use]
pub fn closed_values(key: &str) -> Option<&'static [&'static str]> {
    match key {
        CAPACITY_TYPE => Some(&[ON_DEMAND, SPOT, RESERVED]),
        INSTANCE_TENANCY => Some(&[TENANCY_DEFAULT, TENANCY_DEDICATED]),
        _ => None,
    }
}

/// The domain of a key: what stands before its slash, the whole key when it has none.
#[must_use]
pub fn domain(key: &str) -> &str {
    key.split_once('/').map_or(key, |(domain, _)| domain)
}

/// The runtime check ([R]), of pods, pools and overlays: hostname, and what is not well known in Karpenter's own domains
/// or their subdomains, may not be asked for. `kubernetes.io` and `k8s.io` are open.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    if is_well_known(key) {
        return false;
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    key == HOSTNAME
        || [KARPENTER_DOMAIN, KARPENTER_AWS_DOMAIN].iter().any(|restricted| {
            domain.strip_suffix(restricted).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

/// Objects whose requirement keys or labels the CRD schema checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schema {
    /// Requirement keys and template labels alike.
    NodePool,
    NodeClaim,
    NodeOverlay,
}

/// The schema check ([C]): coarser than [`is_restricted`], because it compares the domain by text suffix
/// (`notkarpenter.sh/x` is refused) and lets `karpenter.k8s.aws/ec2nodeclass` pass.
#[must_use]
pub fn is_restricted_by_schema(schema: Schema, key: &str) -> bool {
    if key == HOSTNAME {
        return true;
    }
    let domain = domain(key);
    if domain.ends_with(KARPENTER_AWS_DOMAIN) {
        let listed = key == EC2NODECLASS || (is_well_known(key) && key.starts_with(KARPENTER_AWS_DOMAIN));
        return !listed || (schema == Schema::NodeOverlay && differs_between_offerings_of_a_type(key));
    }
    if domain.ends_with(KARPENTER_DOMAIN) {
        return match key {
            CAPACITY_TYPE => false,
            NODEPOOL => schema == Schema::NodePool,
            _ => true,
        };
    }
    false
}

/// Keys an overlay may not select on.
fn differs_between_offerings_of_a_type(key: &str) -> bool {
    matches!(
        key,
        INSTANCE_TENANCY
            | CAPACITY_RESERVATION_ID
            | CAPACITY_RESERVATION_TYPE
            | CAPACITY_RESERVATION_INTERRUPTIBLE
            | PLACEMENT_GROUP_ID
            | PLACEMENT_GROUP_PARTITION
    )
}

/// Whether a kubelet may not set this label on its own node (node restriction): it is added at registration instead.
#[must_use]
pub fn is_kubernetes_domain(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, _)| {
        ["kubernetes.io", "k8s.io"]
            .iter()
            .any(|open| domain.strip_suffix(open).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

const NAME_LIMIT: usize = 63;
const PREFIX_LIMIT: usize = 253;

/// A label key as Kubernetes has it: an optional DNS prefix and a slash, then a name.
pub fn check_qualified_name(key: &str) -> Result<(), &'static str> {
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            check_dns_prefix(prefix)?;
            name
        }
    };
    if name.is_empty() {
        return Err("its name is empty");
    }
    check_name(name)
}

/// A label value: empty, or like the name of a key.
pub fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() { Ok(()) } else { check_name(value) }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.len() > NAME_LIMIT {
        return Err("at most 63 characters are allowed");
    }
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let inner = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if inner && edge(name.bytes().next()) && edge(name.bytes().next_back()) {
        Ok(())
    } else {
        Err("only letters, digits, '-', '_' and '.' are allowed, with a letter or digit at both ends")
    }
}

fn check_dns_prefix(prefix: &str) -> Result<(), &'static str> {
    if prefix.is_empty() {
        return Err("its prefix is empty");
    }
    if prefix.len() > PREFIX_LIMIT {
        return Err("a prefix has at most 253 characters");
    }
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let part_is_fine = |part: &str| {
        part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && edge(part.bytes().next())
            && edge(part.bytes().next_back())
    };
    if prefix.split('.').all(part_is_fine) {
        Ok(())
    } else {
        Err("its prefix must be a DNS name in lower case")
    }
}
