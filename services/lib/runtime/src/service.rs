//! The five services and every name that follows from which one is meant: ServiceAccount, trust ConfigMap, Lease,
//! certificate name. Nothing else in the workspace spells these out.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    Provisioner,
    Disruption,
    Termination,
    InterruptionWatcher,
    PricingCache,
}

impl Service {
    pub const ALL: [Self; 5] = [
        Self::Provisioner,
        Self::Disruption,
        Self::Termination,
        Self::InterruptionWatcher,
        Self::PricingCache,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provisioner => "provisioner",
            Self::Disruption => "disruption",
            Self::Termination => "termination",
            Self::InterruptionWatcher => "interruption-watcher",
            Self::PricingCache => "pricing-cache",
        }
    }

    /// Also the name of the Kubernetes Service and of the field manager.
    pub fn service_account(self) -> String {
        format!("karpenter-{self}")
    }

    pub fn trust_config_map(self) -> String {
        format!("karpenter-{self}-trust")
    }

    /// `prefix` is `--leader-election-name`, equal in all services of one installation.
    pub fn lease(self, prefix: &str) -> String {
        format!("{prefix}-{self}")
    }

    /// The name that callers expect in the certificate, wherever the replica's address is.
    pub fn dns_name(self, namespace: &str) -> String {
        format!("karpenter-{self}.{namespace}.svc")
    }

    /// pricing-cache runs active-active; the others have one writer at a time.
    pub const fn elects_leader(self) -> bool {
        !matches!(self, Self::PricingCache)
    }

    pub(crate) fn from_service_account(name: &str) -> Option<Self> {
        let name = name.strip_prefix("karpenter-")?;
        Self::ALL.into_iter().find(|service| service.as_str() == name)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_recognised_by_its_service_account_and_no_other_account_is() {
        for service in Service::ALL {
            assert_eq!(Service::from_service_account(&service.service_account()), Some(service));
        }
        for other in ["karpenter", "provisioner", "karpenter-", "karpenter-provisioner2", "default"] {
            assert_eq!(Service::from_service_account(other), None, "{other}");
        }
    }
}
