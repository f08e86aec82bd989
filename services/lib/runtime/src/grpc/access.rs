//! Who may call what, as a table that a server states and that is complete or the server does not start.

use std::collections::BTreeMap;

use crate::Service;

/// What a person (anybody who is not one of our services) may do with a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Humans {
    /// Nothing: the method makes sense only between services.
    No,
    /// Call it with an RBAC grant: verb `get` on `services/<method in lower case>` of group `rpc.karpenter.sh`, resource name
    /// the callee. For methods that only read.
    Read,
    /// The same with the verb `create`. For methods that change something.
    Granted,
}

impl Humans {
    pub(crate) const fn verb(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::Read => Some("get"),
            Self::Granted => Some("create"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) method: String,
    pub(crate) services: Vec<Service>,
    pub(crate) humans: Humans,
}

#[derive(Clone, Debug, Default)]
pub struct Access {
    rules: BTreeMap<String, Rule>,
}

impl Access {
    pub fn new() -> Self {
        Self::default()
    }

    /// `grpc_service` is the full name, as in the generated `SERVICE_NAME`.
    #[must_use]
    pub fn allow(mut self, grpc_service: &str, method: &str, services: &[Service], humans: Humans) -> Self {
        let rule = Rule { method: method.to_owned(), services: services.to_vec(), humans };
        self.rules.insert(format!("/{grpc_service}/{method}"), rule);
        self
    }

    pub(crate) fn rule(&self, path: &str) -> Option<&Rule> {
        self.rules.get(path)
    }
}

/// Health and reflection are for probes and tools that have no token, and tell nothing that is secret.
pub(crate) fn is_open(path: &str) -> bool {
    [
        "/grpc.health.v1.Health/",
        "/grpc.reflection.v1.ServerReflection/",
        "/grpc.reflection.v1alpha.ServerReflection/",
    ]
    .iter()
    .any(|prefix| path.starts_with(prefix))
}
