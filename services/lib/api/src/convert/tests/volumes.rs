use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use model::pod::Volume;

use super::object;
use crate::convert::{ClaimState, Storage, volume_of_claim};

/// Claims, volumes and classes on a shelf.
#[derive(Default)]
pub(super) struct Shelf {
    claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
    classes: Vec<Arc<StorageClass>>,
}

impl Storage for Shelf {
    fn claim(&self, _: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.iter().find(|c| c.metadata.name.as_deref() == Some(name)).cloned()
    }
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.iter().find(|v| v.metadata.name.as_deref() == Some(name)).cloned()
    }
    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.iter().find(|c| c.metadata.name.as_deref() == Some(name)).cloned()
    }
    fn default_class(&self) -> Option<Arc<StorageClass>> {
        self.class("default")
    }
}

impl Shelf {
    fn with_claim(mut self, yaml: &str) -> Self {
        self.claims.push(Arc::new(object(&format!("metadata: {{name: c}}\n{yaml}"))));
        self
    }
    fn with_volume(mut self, yaml: &str) -> Self {
        self.volumes.push(Arc::new(object(&format!("metadata: {{name: pv}}\n{yaml}"))));
        self
    }
    fn with_class(mut self, name: &str, yaml: &str) -> Self {
        self.classes.push(Arc::new(object(&format!("metadata: {{name: {name}}}\n{yaml}"))));
        self
    }
}

fn usable(shelf: &Shelf) -> Volume {
    match volume_of_claim("default", "c", shelf).unwrap() {
        ClaimState::Usable(volume) => volume,
        ClaimState::Unusable(_, why) => panic!("unusable: {why}"),
    }
}

fn why_not(shelf: &Shelf) -> String {
    match volume_of_claim("default", "c", shelf).unwrap() {
        ClaimState::Usable(_) => panic!("usable"),
        ClaimState::Unusable(_, why) => why,
    }
}

const LATE: &str = "provisioner: kubernetes.io/aws-ebs\nvolumeBindingMode: WaitForFirstConsumer";
const BOUND: &str = "spec: {volumeName: pv}\nstatus: {phase: Bound}";

// Cases: SCH-A.7-13
#[test]
fn a_bound_claim_is_where_its_volume_can_be() {
    let shelf = Shelf::default().with_claim(BOUND).with_volume(
        "spec: {csi: {driver: ebs.csi.aws.com, volumeHandle: v}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [z1]}]}]}}}",
    );
    let volume = usable(&shelf);
    assert_eq!(volume.driver.as_deref(), Some("ebs.csi.aws.com"));
    assert_eq!(volume.alternatives[0].get("topology.kubernetes.io/zone").unwrap().single(), Some("z1"));
}

// Cases: SIM-3, SCH-A.7-15, SCH-B.11-5
#[test]
fn a_local_volume_does_not_pin_the_node_name() {
    let affinity = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n]}]}]}}";
    let local =
        Shelf::default().with_claim(BOUND).with_volume(&format!("spec: {{local: {{path: /x}}, {affinity}}}"));
    assert!(usable(&local).alternatives[0].is_empty());
    let other = Shelf::default()
        .with_claim(BOUND)
        .with_volume(&format!("spec: {{nfs: {{path: /x, server: s}}, {affinity}}}"));
    assert!(usable(&other).alternatives[0].contains_key("kubernetes.io/hostname"));
}

// Cases: SCH-B.11-21
#[test]
fn an_unbound_claim_is_where_its_class_allows_and_in_tree_names_are_translated() {
    let shelf = Shelf::default().with_claim("spec: {storageClassName: late}").with_class(
        "late",
        &format!("{LATE}\nallowedTopologies: [{{matchLabelExpressions: [{{key: topology.kubernetes.io/zone, values: [z1, z2]}}]}}]"),
    );
    let volume = usable(&shelf);
    assert_eq!(volume.driver.as_deref(), Some("ebs.csi.aws.com"));
    assert_eq!(volume.alternatives[0].get("topology.kubernetes.io/zone").unwrap().len(), 2);
}

// Cases: SCH-B.11-9
#[test]
fn a_claim_without_a_class_takes_the_default_one() {
    let shelf = Shelf::default().with_claim("spec: {}");
    assert!(why_not(&shelf).contains("no storage class"));
    usable(&shelf.with_class("default", LATE));
}

// Cases: SCH-A.7-1, SCH-A.7-5, SCH-A.7-7, SCH-A.7-8, SCH-B.11-14, SCH-B.11-17, SCH-B.11-18
#[test]
fn what_keeps_a_claim_from_being_used_is_said() {
    assert!(why_not(&Shelf::default()).contains("does not exist"));
    let claim = |yaml: &str| why_not(&Shelf::default().with_claim(yaml));
    assert!(claim("spec: {volumeName: pv}").contains("persistent volume pv"));
    assert!(claim("status: {phase: Lost}").contains("lost"));
    assert!(claim("spec: {storageClassName: gone}").contains("storage class gone"));
    let early = Shelf::default()
        .with_claim("spec: {storageClassName: early}")
        .with_class("early", "provisioner: ebs.csi.aws.com\nvolumeBindingMode: Immediate");
    assert!(why_not(&early).contains("WaitForFirstConsumer"));
    let half = Shelf::default().with_claim("spec: {volumeName: pv}").with_volume("spec: {}");
    assert!(why_not(&half).contains("not bound"));
}
