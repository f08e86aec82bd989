//! Hash annotations: what of a class, when changed, makes its nodes drift.

use std::collections::BTreeMap;

use api::conditions;
use api::hash::{EC2_NODE_CLASS_VERSION, ec2_node_class};
use api::{EC2NodeClass, NodeClaim};
use model::labels;

use crate::launch::template::family;

/// The annotations the class should have.
pub(super) fn wanted(class: &EC2NodeClass, ca_bundle: &str) -> BTreeMap<String, String> {
    let hash = ec2_node_class(&class.spec, family(class).as_str(), ca_bundle);
    BTreeMap::from([
        (labels::EC2NODECLASS_HASH.to_owned(), hash),
        (labels::EC2NODECLASS_HASH_VERSION.to_owned(), EC2_NODE_CLASS_VERSION.to_owned()),
    ])
}

/// Whether the way of hashing has changed since the class was stamped: then its claims are stamped first.
pub(super) fn version_changed(class: &EC2NodeClass) -> bool {
    let version = class.metadata.annotations.as_ref().and_then(|a| a.get(labels::EC2NODECLASS_HASH_VERSION));
    version.is_some_and(|version| version != EC2_NODE_CLASS_VERSION)
}

/// What a claim of the class gets when the version changed: the version, and the hash too unless the claim has drifted, which
/// it then stays.
pub(super) fn restamped(
    claim: &NodeClaim,
    wanted: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    let own = claim.metadata.annotations.as_ref();
    let current = own.and_then(|a| a.get(labels::EC2NODECLASS_HASH_VERSION));
    if current == wanted.get(labels::EC2NODECLASS_HASH_VERSION) {
        return None;
    }
    let conditions = claim.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let drifted = conditions::is_true(conditions, "Drifted");
    let keep = |key: &String| !drifted || key == labels::EC2NODECLASS_HASH_VERSION;
    Some(wanted.iter().filter(|(key, _)| keep(key)).map(|(k, v)| (k.clone(), v.clone())).collect())
}

#[cfg(test)]
mod tests {
    use api::conditions::{ConditionSet, Finding};
    use jiff::Timestamp;

    use super::*;

    fn claim(version: &str, drifted: bool) -> NodeClaim {
        let mut claim = NodeClaim::default();
        let annotations = [(labels::EC2NODECLASS_HASH, "1"), (labels::EC2NODECLASS_HASH_VERSION, version)];
        claim.metadata.annotations = Some(annotations.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        if drifted {
            let conditions = claim.status.get_or_insert_default().conditions.get_or_insert_default();
            let finding = Finding::holds_because("AMIDrift", "AMIDrift");
            ConditionSet::NODE_CLAIM.set(
                conditions,
                &claim.metadata,
                "Drifted",
                finding,
                Timestamp::UNIX_EPOCH,
            );
        }
        claim
    }

    #[test]
    fn a_new_way_of_hashing_drifts_no_node_and_heals_none() {
        let wanted = wanted(&EC2NodeClass::default(), "");
        assert_eq!(restamped(&claim("v4", false), &wanted), Some(wanted.clone()));
        let drifted = restamped(&claim("v4", true), &wanted).unwrap();
        assert_eq!(drifted.keys().collect::<Vec<_>>(), [labels::EC2NODECLASS_HASH_VERSION]);
        assert_eq!(restamped(&claim(EC2_NODE_CLASS_VERSION, false), &wanted), None);
    }
}
