//! Volume claims of access mode ReadWriteOncePod: kube-scheduler lets one pod use such a claim and keeps all others waiting,
//! whatever nodes there are. So no node is made for a pod whose claim another one uses, or will use first.

use std::sync::Arc;

use api::convert::Storage as _;
use jiff::Timestamp;
use model::pod::Pod;

use super::pods::{PodKey, Pods};
use super::state::State;
use super::storage::{Storage, StorageRef, Touched};

const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod";

fn is_exclusive(one: &StorageRef, storage: &Storage) -> bool {
    let StorageRef::Claim(key) = one else { return false };
    let claim = storage.claim(&key.0, &key.1);
    let modes = claim.as_ref().and_then(|claim| claim.spec.as_ref()?.access_modes.as_deref());
    modes.unwrap_or_default().iter().any(|mode| mode == READ_WRITE_ONCE_POD)
}

impl Pods {
    /// Why the pod, which has no node, has to wait for another one's volume.
    pub(super) fn waits_for_volume(
        &self,
        pod: &Pod,
        with: &[StorageRef],
        storage: &Storage,
    ) -> Option<String> {
        for one in with.iter().filter(|one| is_exclusive(one, storage)) {
            let StorageRef::Claim(claim) = one else { continue };
            let others = self.resolved_by(one).filter_map(|key| self.records.get(key));
            let others = others.map(|record| &record.pod).filter(|other| other.uid != pod.uid);
            let order = |pod: &Pod| (pod.node.is_none(), pod.created, Arc::clone(&pod.name));
            if let Some(first) =
                others.min_by_key(|other| order(other)).filter(|other| order(other) < order(pod))
            {
                let (namespace, name) = &**claim;
                let does = if first.node.is_some() { "uses it" } else { "waits for it too and comes first" };
                return Some(format!(
                    "persistent volume claim {namespace}/{name} is for one pod at a time ({READ_WRITE_ONCE_POD}), and \
                     pod {} {does}",
                    first.key()
                ));
            }
        }
        None
    }

    /// Claims of the pod that no other may use beside it.
    pub(super) fn exclusive_claims(&self, key: &PodKey, storage: &Storage) -> Vec<StorageRef> {
        let with = self.records.get(key).map(|record| record.resolved_with()).unwrap_or_default();
        with.iter().filter(|one| is_exclusive(one, storage)).cloned().collect()
    }
}

impl State {
    /// Something about a pod that uses these claims has changed, or it is gone: others may have waited for it.
    pub(super) fn judge_sharers(&mut self, claims: Vec<StorageRef>, of: &PodKey, now: Timestamp) {
        if claims.is_empty() {
            return;
        }
        for pod in self.pods.resolved_with(&Touched::Some(claims)) {
            if Pods::key(&pod) != *of {
                self.take_pod_alone(&pod, now);
            }
        }
    }
}
