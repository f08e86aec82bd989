//! What really happened beside a shadow: NodeClaims that came and went, whoever made them.

use std::{borrow::Cow, collections::HashMap};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::ClusterResourceScope};
use serde::Deserialize;

use super::record::Record;
use crate::watch::{Change, Index};

/// Claims that are gone and still told of. When there are more, the oldest quarter goes.
const MOST_GONE: usize = 1000;
/// What a launched claim is labelled with: node pool, instance type, zone, capacity type.
const LABELS: [&str; 4] = [
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
];

/// A NodeClaim, as much of it as is told.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NodeClaim {
    metadata: ObjectMeta,
}

impl Resource for NodeClaim {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "NodeClaim".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "karpenter.sh".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "nodeclaims".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) name: String,
    /// In the order of [`LABELS`].
    pub(crate) labels: [String; 4],
    pub(crate) created: Option<Timestamp>,
    pub(crate) deleted: Option<Timestamp>,
}

pub(crate) struct Seen {
    since: Timestamp,
    present: HashMap<String, Fate>,
    gone: Vec<Fate>,
}

impl Seen {
    pub(crate) fn new(since: Timestamp) -> Self {
        Self { since, present: HashMap::new(), gone: Vec::new() }
    }

    fn change(&mut self, change: &Change<NodeClaim>, now: Timestamp) {
        match change {
            Change::Applied(claim) => {
                self.present.insert(uid(claim), fate(claim));
            }
            Change::Deleted(claim) => {
                self.present.insert(uid(claim), fate(claim));
                self.end(&uid(claim), now);
            }
            Change::Reset(claims) => {
                let now_there: HashMap<String, Fate> =
                    claims.iter().map(|claim| (uid(claim), fate(claim))).collect();
                let ended: Vec<String> =
                    self.present.keys().filter(|uid| !now_there.contains_key(*uid)).cloned().collect();
                ended.iter().for_each(|uid| self.end(uid, now));
                self.present = now_there;
            }
        }
    }

    fn end(&mut self, uid: &str, now: Timestamp) {
        let Some(mut fate) = self.present.remove(uid) else { return };
        fate.deleted.get_or_insert(now);
        self.gone.push(fate);
        if self.gone.len() > MOST_GONE {
            self.gone.drain(..MOST_GONE / 4);
        }
    }

    /// Those that exist, and those that ceased to since this process started; by creation.
    pub(crate) fn fates(&self) -> Vec<&Fate> {
        let gone = self.gone.iter().filter(|fate| fate.deleted.is_some_and(|at| at >= self.since));
        let mut all: Vec<&Fate> = self.present.values().chain(gone).collect();
        all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        all
    }
}

fn uid(claim: &NodeClaim) -> String {
    claim.metadata.uid.clone().unwrap_or_default()
}

fn fate(claim: &NodeClaim) -> Fate {
    let meta = &claim.metadata;
    let label = |key| meta.labels.as_ref().and_then(|all| all.get(key)).cloned().unwrap_or_default();
    Fate {
        name: meta.name.clone().unwrap_or_default(),
        labels: LABELS.map(label),
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

impl Index<NodeClaim> for Record {
    async fn change(&mut self, change: Change<NodeClaim>) {
        self.kept().seen.change(&change, Timestamp::now());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn claim(name: &str, instance_type: &str) -> Arc<NodeClaim> {
        let object = json!({"metadata": {
            "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": instance_type},
        }});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_claim_that_is_gone_is_told_with_its_last_labels_however_it_was_noticed() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut seen = Seen::new(at(10));
        seen.change(&Change::Reset(vec![claim("a", ""), claim("b", "m5.large"), claim("c", "")]), at(20));
        seen.change(&Change::Applied(claim("a", "c5.large")), at(21));
        seen.change(&Change::Deleted(claim("b", "m5.large")), at(22));
        seen.change(&Change::Reset(vec![claim("c", "")]), at(23));
        let told: Vec<_> = seen
            .fates()
            .iter()
            .map(|fate| (fate.name.as_str(), fate.labels[1].as_str(), fate.deleted.map(|at| at.as_second())))
            .collect();
        assert_eq!(told, [("a", "c5.large", Some(23)), ("b", "m5.large", Some(22)), ("c", "", None)]);
    }
}
