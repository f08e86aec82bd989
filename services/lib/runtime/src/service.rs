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

    /// The audience of tokens shown to this service, and to no other: what one callee is shown opens nothing at another. A
    /// token made for the API server is refused.
    pub fn audience(self) -> String {
        format!("{self}.rpc.karpenter.sh")
    }

    /// pricing-cache runs active-active; the others have one writer at a time.
    pub const fn elects_leader(self) -> bool {
        !matches!(self, Self::PricingCache)
    }

    /// The service whose token names this ServiceAccount of our namespace, and this pod. Where all services share one account the
    /// pod's Deployment tells which one it is: `<name>-<service>`, and `<name>` for the provisioner, as the chart calls them. A
    /// token of that account that is bound to no pod is none of a service's.
    pub(crate) fn of_caller(account: &str, pod: Option<&str>, shared: Option<&str>) -> Option<Self> {
        if shared != Some(account) {
            return Self::from_service_account(account);
        }
        // A Deployment's pod is called <deployment>-<hash>-<suffix>.
        let deployment = pod?.rsplitn(3, '-').nth(2)?;
        let named = |service: &Self| {
            deployment.strip_suffix(service.as_str()).is_some_and(|name| name.ends_with('-'))
        };
        Some(Self::ALL.into_iter().find(named).unwrap_or(Self::Provisioner))
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

    #[test]
    fn services_that_share_an_account_are_recognised_by_their_pods() {
        let caller = |account, pod| Service::of_caller(account, pod, Some("karpenter"));
        let cases = [
            ("karpenter-6d4f9-x7k2p", Service::Provisioner),
            ("karpenter-interruption-watcher-6d4f9-x7k2p", Service::InterruptionWatcher),
            ("my-release-karpenter-disruption-6d4f9-x7k2p", Service::Disruption),
        ];
        for (pod, service) in cases {
            assert_eq!(caller("karpenter", Some(pod)), Some(service), "{pod}");
        }
        // A token that a person requested, an account that is not shared, and accounts that are not ours.
        assert_eq!(caller("karpenter", None), None);
        assert_eq!(Service::of_caller("karpenter", Some("karpenter-6d4f9-x7k2p"), None), None);
        assert_eq!(caller("default", Some("karpenter-6d4f9-x7k2p")), None);
        assert_eq!(caller("karpenter-termination", None), Some(Service::Termination));
    }
}
