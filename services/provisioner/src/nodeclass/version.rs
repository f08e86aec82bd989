//! The cluster's Kubernetes version, which image aliases are made of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use cloud::NodeClassSource;
use kube::Client;
use tracing::{info, warn};

use super::cache::Cache;

const GOOD_FOR: Duration = Duration::from_mins(5);
const SUPPORTED: std::ops::RangeInclusive<(u32, u32)> = (1, 26)..=(1, 36);

/// Major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32, pub u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

pub(super) struct Versions {
    kube: Client,
    source: Arc<dyn NodeClassSource>,
    /// Ask EKS by this name instead of the API server.
    eks_cluster: Option<String>,
    found: Cache<(), Version>,
    last: Mutex<Option<Version>>,
}

impl Versions {
    pub(super) fn new(kube: Client, source: Arc<dyn NodeClassSource>, eks_cluster: Option<String>) -> Self {
        Self { kube, source, eks_cluster, found: Cache::new(GOOD_FOR), last: Mutex::new(None) }
    }

    /// The version last seen while nobody answers.
    pub(super) async fn current(&self) -> anyhow::Result<Version> {
        let last = || *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match self.found.get_or((), async || self.ask().await).await {
            Ok(found) => found,
            Err(error) => return last().ok_or(error),
        };
        if last() != Some(found) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            if SUPPORTED.contains(&(found.0, found.1)) {
                info!(version = %found, "kubernetes version");
            } else {
                warn!(version = %found, "this release is not tested with this Kubernetes version");
            }
        }
        Ok(found)
    }

    async fn ask(&self) -> anyhow::Result<Version> {
        let text = match &self.eks_cluster {
            Some(cluster) => {
                self.source.cluster(cluster).await.context("ask EKS for the Kubernetes version")?.version
            }
            None => {
                let info =
                    self.kube.apiserver_version().await.context("ask the API server for its version")?;
                format!("{}.{}", info.major, info.minor)
            }
        };
        parse(&text).with_context(|| format!("{text:?} is no Kubernetes version"))
    }
}

/// Managed control planes write a `+` behind the minor version.
fn parse(text: &str) -> Option<Version> {
    let (major, minor) = text.trim_start_matches('v').trim_end_matches('+').split_once('.')?;
    Some(Version(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plus_behind_the_minor_version_is_passed_over() {
        assert_eq!(parse("1.35+"), Some(Version(1, 35)));
        assert_eq!(parse("1.35"), Some(Version(1, 35)));
        assert_eq!(parse("one"), None);
    }
}
