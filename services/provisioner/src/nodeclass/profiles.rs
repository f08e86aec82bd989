//! The instance profile of a class: one of the user's, or one we make and keep for `spec.role`.
//!
//! Its name follows from class and role, so that a crash between making it and recording it makes no second one, and a
//! role change means another profile while running nodes keep theirs. (The reference draws a random name each time.)

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::EC2NodeClass;
use cloud::error::{CloudError, ErrorKind};
use cloud::instance::{CLUSTER_TAG, NODECLASS_TAG, ownership_tag};
use cloud::{NodeClassSource, Tags};
use jiff::{SignedDuration, Timestamp};
use model::labels;
use tracing::{info, warn};

use super::cache::Cache;

const SEEN_GOOD_FOR: Duration = Duration::from_mins(15);
const MISSING_ROLE_FOR: Duration = Duration::from_mins(1);
/// A young profile may not be in any status yet.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);
/// IAM's limit.
const LONGEST_NAME: usize = 128;

pub(super) struct Profiles {
    source: Arc<dyn NodeClassSource>,
    cluster: String,
    /// Role by profile, as IAM last said.
    seen: Cache<String, Option<String>>,
    missing_roles: Cache<String, String>,
}

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoProfile {
    #[error("role {role} does not exist: {message}")]
    RoleNotFound { role: String, message: String },
    #[error(transparent)]
    Call(#[from] CloudError),
}

impl Profiles {
    pub(super) fn new(source: Arc<dyn NodeClassSource>, cluster: &str) -> Self {
        Self {
            source,
            cluster: cluster.to_owned(),
            seen: Cache::new(SEEN_GOOD_FOR),
            missing_roles: Cache::new(MISSING_ROLE_FOR),
        }
    }

    /// The profile that nodes of the class are to be launched with. Made when it is not there.
    pub(super) async fn resolve(&self, class: &EC2NodeClass) -> Result<String, NoProfile> {
        if let Some(own) = &class.spec.instance_profile {
            return Ok(own.clone());
        }
        let written = class.spec.role.as_deref().unwrap_or_default();
        // IAM knows roles by their last part; a path or ARN may stand before it.
        let role = written.rsplit('/').next().unwrap_or(written);
        // A profile that an earlier release or the reference made for this role goes on being used.
        let before = class.status.as_ref().and_then(|s| s.instance_profile.clone());
        if let Some(before) = before
            && self.role_of(&before).await?.as_deref() == Some(role)
        {
            return Ok(before);
        }
        if let Some(message) = self.missing_roles.get(&role.to_owned()) {
            return Err(NoProfile::RoleNotFound { role: role.to_owned(), message });
        }
        let name = self.name(class, role);
        self.make(class, &name, role).await?;
        Ok(name)
    }

    async fn make(&self, class: &EC2NodeClass, name: &str, role: &str) -> Result<(), NoProfile> {
        let made = match self.source.create_instance_profile(name, &self.path(class), self.tags(class)).await
        {
            Ok(_) => true,
            Err(error) if error.kind == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error.into()),
        };
        if !made {
            let found = self.source.instance_profile(name).await?;
            match found.and_then(|profile| profile.role) {
                Some(attached) if attached == role => {
                    self.seen.put(name.to_owned(), Some(role.to_owned()));
                    return Ok(());
                }
                Some(other) => self.source.remove_role(name, &other).await?,
                None => {}
            }
        }
        match self.source.add_role(name, role).await {
            Ok(()) => {
                info!(profile = name, role, "created instance profile");
                self.seen.put(name.to_owned(), Some(role.to_owned()));
                Ok(())
            }
            Err(error) => {
                if let Err(left) = self.source.delete_instance_profile(name).await {
                    warn!(profile = name, error = %left, "an instance profile without a role stays behind for now");
                }
                if error.is_not_found() && error.message.to_lowercase().contains("role") {
                    self.missing_roles.put(role.to_owned(), error.message.clone());
                    return Err(NoProfile::RoleNotFound { role: role.to_owned(), message: error.message });
                }
                Err(error.into())
            }
        }
    }

    async fn role_of(&self, profile: &str) -> Result<Option<String>, CloudError> {
        let ask = async || Ok(self.source.instance_profile(profile).await?.and_then(|found| found.role));
        self.seen.get_or(profile.to_owned(), ask).await
    }

    fn name(&self, class: &EC2NodeClass, role: &str) -> String {
        let uid = class.metadata.uid.as_deref().unwrap_or_default();
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let hash = fnv(&[self.source.region(), name, uid, role]);
        let tail = format!("_{hash}");
        let room = LONGEST_NAME.saturating_sub(tail.len());
        format!("{}{tail}", self.cluster.chars().take(room).collect::<String>())
    }

    fn prefix(&self) -> String {
        format!("/karpenter/{}/{}/", self.source.region(), self.cluster)
    }

    fn path(&self, class: &EC2NodeClass) -> String {
        format!("{}{}/", self.prefix(), class.metadata.uid.as_deref().unwrap_or_default())
    }

    fn tags(&self, class: &EC2NodeClass) -> Tags {
        let mut tags: Tags = class.spec.tags.clone().unwrap_or_default();
        tags.insert(ownership_tag(&self.cluster), "owned".to_owned());
        tags.insert(CLUSTER_TAG.to_owned(), self.cluster.clone());
        tags.insert(NODECLASS_TAG.to_owned(), class.metadata.name.clone().unwrap_or_default());
        tags.insert(labels::REGION.to_owned(), self.source.region().to_owned());
        tags
    }

    /// Every profile made for the class, for its end.
    pub(super) async fn delete_of_class(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        for profile in self.source.instance_profiles(&self.path(class)).await? {
            self.delete(&profile.name, profile.role.as_deref()).await?;
        }
        self.delete_older(class).await
    }

    /// The profile that an older release of the reference made for the class, without a path. Only one whose tags say that it
    /// is this cluster's and this class's.
    async fn delete_older(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        let class = class.metadata.name.as_deref().unwrap_or_default();
        let name =
            format!("{}_{}", self.cluster, api::hash::older_instance_profile(self.source.region(), class));
        if name.len() > LONGEST_NAME {
            return Ok(());
        }
        let Some(profile) = self.source.instance_profile(&name).await? else { return Ok(()) };
        let is = |key: &str, value: &str| profile.tags.get(key).is_some_and(|own| own == value);
        if is(&ownership_tag(&self.cluster), "owned") && is(NODECLASS_TAG, class) {
            self.delete(&profile.name, profile.role.as_deref()).await?;
        }
        Ok(())
    }

    /// Deletes profiles that nothing uses any more. `used` are the names in statuses and on claims.
    pub(super) async fn sweep(&self, used: &BTreeSet<String>, now: Timestamp) -> Result<(), CloudError> {
        for profile in self.source.instance_profiles(&self.prefix()).await? {
            let old = profile.created_at.is_none_or(|at| now.duration_since(at) > YOUNG);
            if old && !used.contains(&profile.name) {
                self.delete(&profile.name, profile.role.as_deref()).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, name: &str, role: Option<&str>) -> Result<(), CloudError> {
        if let Some(role) = role {
            self.source.remove_role(name, role).await?;
        }
        self.source.delete_instance_profile(name).await?;
        self.seen.remove(&name.to_owned());
        info!(profile = name, "deleted instance profile");
        Ok(())
    }
}

/// FNV-1a; the parts are kept apart.
fn fnv(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use cloud::memory::MemoryCloud;

    use super::*;

    #[tokio::test]
    async fn the_profile_that_an_older_release_made_ends_with_its_class_and_no_other_does() {
        let cloud = Arc::new(MemoryCloud::new("us-west-2"));
        let profiles = Profiles::new(cloud.clone(), "blue");
        let class: EC2NodeClass = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "u-1"},
            "spec": {"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []}
        }))
        .unwrap();
        let older = |class: &str| format!("blue_{}", api::hash::older_instance_profile("us-west-2", class));
        let tags = |class: &str| {
            Tags::from([
                (ownership_tag("blue"), "owned".to_owned()),
                (NODECLASS_TAG.to_owned(), class.to_owned()),
            ])
        };
        for (name, tags) in [(older("default"), tags("default")), (older("other"), tags("other"))] {
            cloud.create_instance_profile(&name, "/", tags).await.unwrap();
        }
        profiles.delete_of_class(&class).await.unwrap();
        assert_eq!(cloud.instance_profile(&older("default")).await.unwrap(), None);
        assert!(cloud.instance_profile(&older("other")).await.unwrap().is_some());

        cloud.create_instance_profile(&older("default"), "/", Tags::new()).await.unwrap();
        profiles.delete_of_class(&class).await.unwrap();
        assert!(cloud.instance_profile(&older("default")).await.unwrap().is_some(), "its tags prove nothing");
    }
}
