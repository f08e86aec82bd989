//! Instances as EC2 reports them, and which of them are ours.

use jiff::Timestamp;
use model::catalog::CapacityType;

use crate::Tags;
use crate::select::TagFilter;

/// Written by the provisioner on everything it launches; `Terminator` implementations and garbage collection rely on it.
pub const CLUSTER_TAG: &str = "eks:eks-cluster-name";
pub const NODEPOOL_TAG: &str = model::labels::NODEPOOL;
pub const NODECLASS_TAG: &str = model::labels::EC2NODECLASS;
pub const NODECLAIM_TAG: &str = "karpenter.sh/nodeclaim";
/// On instances of a fleet request that several claims shared: which of them an instance is for is written on the claim, and on
/// the instance only later.
pub const BATCH_TAG: &str = model::labels::LAUNCH_BATCH;
pub const NAME_TAG: &str = "Name";

/// Value of [`ownership_tag`].
pub const OWNED: &str = "owned";

/// Tag of a resource that the cluster owns; its value is [`OWNED`].
pub fn ownership_tag(cluster: &str) -> String {
    format!("kubernetes.io/cluster/{cluster}")
}

/// The tags by which instances of a cluster are found: all three must be there.
pub fn ours(cluster: &str) -> Vec<TagFilter> {
    vec![
        TagFilter::exists(NODEPOOL_TAG),
        TagFilter::exists(NODECLASS_TAG),
        TagFilter::is(CLUSTER_TAG, cluster),
    ]
}

/// Instances that are gone (`terminated`) are never reported: absent means gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub id: String,
    pub state: InstanceState,
    pub instance_type: String,
    pub image_id: String,
    /// EC2's name, such as `x86_64`.
    pub architecture: String,
    /// Zone name.
    pub zone: String,
    pub zone_id: Option<String>,
    pub subnet_id: Option<String>,
    pub security_group_ids: Vec<String>,
    pub private_dns_name: Option<String>,
    pub private_ip: Option<String>,
    pub launched_at: Option<Timestamp>,
    pub lifecycle: Lifecycle,
    pub spot_request_id: Option<String>,
    pub reservation_id: Option<String>,
    /// The instance was launched to run in reservations only.
    pub reservations_only: bool,
    /// `default` or `dedicated`.
    pub tenancy: String,
    pub placement_group_id: Option<String>,
    pub partition: Option<u32>,
    /// Interfaces of type `efa` or `efa-only`.
    pub efa_interfaces: u32,
    /// Name, not ARN.
    pub instance_profile: Option<String>,
    pub tags: Tags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstanceState {
    Pending,
    Running,
    Stopping,
    Stopped,
    ShuttingDown,
    Terminated,
    /// A state this release does not know: treated as running, never as gone.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lifecycle {
    OnDemand,
    Spot,
    CapacityBlock,
    InterruptibleReservation,
}

impl Instance {
    /// `reserved_capacity` is the feature gate: without it reserved instances count as on-demand.
    pub fn capacity_type(&self, reserved_capacity: bool) -> CapacityType {
        if self.spot_request_id.is_some() || self.lifecycle == Lifecycle::Spot {
            CapacityType::Spot
        } else if reserved_capacity && self.reservation_id.is_some() && self.reservations_only {
            CapacityType::Reserved
        } else {
            CapacityType::OnDemand
        }
    }

    /// `aws:///<zone>/<id>`, as the kubelet of the instance writes it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }

    /// Carries every tag by which this cluster's instances are known.
    pub fn belongs_to(&self, cluster: &str) -> bool {
        ours(cluster).iter().all(|tag| tag.matches(&self.tags))
    }

    /// For the instance that the NodeClaim's provider id names: the claim's own name and the cluster's ownership tag prove it
    /// too. Older releases did not write `eks:eks-cluster-name`, and people edit tags. The name of another cluster refutes it.
    pub fn belongs_to_claim(&self, cluster: &str, claim: &str) -> bool {
        let is = |key: &str, value: &str| self.tags.get(key).is_some_and(|found| found == value);
        let of_another_cluster = self.tags.get(CLUSTER_TAG).is_some_and(|name| name != cluster);
        !of_another_cluster && is(NODECLAIM_TAG, claim) && is(&ownership_tag(cluster), OWNED)
    }
}

impl InstanceState {
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::ShuttingDown,
        Self::Terminated,
        Self::Unknown,
    ];
    /// Everything but `terminated`: the states every listing asks for.
    pub const LISTED: [Self; 5] =
        [Self::Pending, Self::Running, Self::Stopping, Self::Stopped, Self::ShuttingDown];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::ShuttingDown => "shutting-down",
            Self::Terminated => "terminated",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|s| s.as_str() == text).unwrap_or(Self::Unknown)
    }

    /// Runs, or will soon. A state that this release does not know counts as running.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Pending | Self::Running | Self::Unknown)
    }

    /// On its way out or gone: asking EC2 to terminate it again changes nothing.
    pub fn is_ending(self) -> bool {
        matches!(self, Self::ShuttingDown | Self::Terminated)
    }
}

/// The instance id of a provider id: the last part of `<scheme>:///<zone>/<id>`.
pub fn id_of_provider(provider_id: &str) -> Option<&str> {
    let (_scheme, rest) = provider_id.split_once(":///")?;
    let (zone, id) = rest.split_once('/')?;
    (!zone.is_empty() && !id.is_empty() && !id.contains('/')).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_ids_come_from_well_formed_provider_ids_only() {
        for (text, expected) in [
            ("aws:///us-east-1a/i-0123", Some("i-0123")),
            ("kwok:///zone/i-1", Some("i-1")),
            ("aws:///us-east-1a/", None),
            ("aws:////i-0123", None),
            ("aws://us-east-1a/i-0123", None),
            ("i-0123", None),
            ("", None),
            ("aws:///a/b/c", None),
        ] {
            assert_eq!(id_of_provider(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_state_is_never_taken_for_an_end() {
        assert_eq!(InstanceState::parse("hibernating"), InstanceState::Unknown);
        assert!(!InstanceState::parse("hibernating").is_ending());
        for state in InstanceState::ALL {
            assert_eq!(InstanceState::parse(state.as_str()), state);
        }
    }

    #[test]
    fn only_instances_with_all_three_tags_and_this_cluster_are_ours() {
        let tags = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Tags>()
        };
        let all = tags(&[(NODEPOOL_TAG, "default"), (NODECLASS_TAG, "default"), (CLUSTER_TAG, "blue")]);
        let is_ours = |tags: &Tags| ours("blue").iter().all(|t| t.matches(tags));
        assert!(is_ours(&all));
        for key in [NODEPOOL_TAG, NODECLASS_TAG, CLUSTER_TAG] {
            let mut fewer = all.clone();
            fewer.remove(key);
            assert!(!is_ours(&fewer), "without {key}");
        }
        assert!(!ours("green").iter().all(|t| t.matches(&all)));
    }
}
