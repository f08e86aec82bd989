use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod, PodTemplateSpec};
use k8s_openapi::api::storage::v1::CSINode;
use model::node::NodeState;
use model::resources::{CPU, NVIDIA_GPU};

use super::object;
use crate::capacitybuffer::CapacityBuffer;
use crate::convert::{self, NodeFacts};
use crate::nodeclaim::NodeClaim;
use crate::nodepool::NodePool;

fn claim(yaml: &str) -> NodeClaim {
    object(&format!(
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {{name: claim-1, labels: {{karpenter.sh/nodepool: default, of: claim}}}}\nspec: {{requirements: [], nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}}, taints: [{{key: own, effect: NoSchedule}}], startupTaints: [{{key: cni, effect: NoExecute}}]}}\n{yaml}"
    ))
}

fn node(labels: &str, more: &str) -> Node {
    object(&format!(
        "metadata: {{name: node-1, labels: {{karpenter.sh/nodepool: default, of: node{labels}}}}}\n{more}"
    ))
}

const UP: &str = ", karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true'";
const READY: &str = "status: {allocatable: {cpu: '4', nvidia.com/gpu: '0'}, capacity: {cpu: '4'}, conditions: [{type: Ready, status: 'True'}]}";
const PROMISE: &str =
    "status: {capacity: {cpu: '8', nvidia.com/gpu: '1'}, allocatable: {cpu: '7', nvidia.com/gpu: '1'}}";

fn merged(node: Option<&Node>, claim: Option<&NodeClaim>) -> model::node::Node {
    convert::node(node, claim, None, NodeFacts::default()).unwrap().unwrap()
}

#[test]
fn a_claim_without_a_node_is_capacity_on_its_way() {
    let flying = merged(None, Some(&claim(PROMISE)));
    assert_eq!((&*flying.name, flying.state), ("claim-1", NodeState::InFlight));
    assert!(!flying.registered && !flying.initialized);
    assert_eq!(flying.allocatable.get(CPU).to_string(), "7");
    assert_eq!(flying.labels["of"], "claim");
    assert_eq!(flying.taints.len(), 1);
}

#[test]
fn until_registration_the_claim_speaks_and_afterwards_the_node() {
    let claim = claim(PROMISE);
    let young = merged(Some(&node("", READY)), Some(&claim));
    assert_eq!((&*young.name, young.labels["of"].as_str()), ("claim-1", "claim"));
    let grown = merged(Some(&node(UP, READY)), Some(&claim));
    assert_eq!(
        (&*grown.name, grown.labels["of"].as_str(), grown.state),
        ("node-1", "node", NodeState::Ready)
    );
    assert!(grown.taints.is_empty());
}

// Cases: SCH-B.10-2
#[test]
fn devices_that_kubelet_has_not_found_yet_are_expected_until_initialization() {
    let claim = claim(PROMISE);
    let registered = node(", karpenter.sh/registered: 'true'", READY);
    assert_eq!(merged(Some(&registered), Some(&claim)).allocatable.get(NVIDIA_GPU).to_string(), "1");
    assert_eq!(merged(Some(&node(UP, READY)), Some(&claim)).allocatable.get(NVIDIA_GPU).to_string(), "0");
}

// Cases: CST-26, SCH-H.3-12
#[test]
fn whatever_says_that_a_node_goes_is_believed() {
    let up = node(UP, READY);
    let mut deleting = claim(PROMISE);
    deleting.metadata.deletion_timestamp = Some(object("'2026-01-01T00:00:00Z'"));
    assert_eq!(merged(Some(&up), Some(&deleting)).state, NodeState::Deleting);
    let terminating = claim(
        "status: {conditions: [{type: InstanceTerminating, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z', reason: x, message: ''}]}",
    );
    assert_eq!(merged(Some(&up), Some(&terminating)).state, NodeState::Deleting);
    let marked = NodeFacts { marked_for_deletion: true, ..NodeFacts::default() };
    let claim = claim(PROMISE);
    assert_eq!(
        convert::node(Some(&up), Some(&claim), None, marked).unwrap().unwrap().state,
        NodeState::Deleting
    );
}

#[test]
fn a_node_of_ours_without_claim_and_type_is_not_understood_yet() {
    let half = node("", READY);
    assert_eq!(convert::node(Some(&half), None, None, NodeFacts::default()).unwrap(), None);
    let foreign: Node = object("metadata: {name: x}");
    let foreign = merged(Some(&foreign), None);
    assert!(!foreign.managed() && foreign.initialized);
}

// Cases: SCH-H.2-1
#[test]
fn attach_limits_come_from_the_csi_node() {
    let csi: CSINode = object(
        "metadata: {name: node-1}\nspec: {drivers: [{name: ebs, nodeID: n, allocatable: {count: 25}}, {name: efs, nodeID: n}]}",
    );
    let up = node(UP, READY);
    let limited =
        convert::node(Some(&up), Some(&claim(PROMISE)), Some(&csi), NodeFacts::default()).unwrap().unwrap();
    assert_eq!(limited.csi_limits.len(), 1);
    assert_eq!(limited.csi_limits["ebs"], 25);
}

#[test]
fn a_pool_keeps_its_requirements_limits_and_taints() {
    let pool: NodePool = object(
        "
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  weight: 30
  limits: {cpu: 100, nvidia.com/gpu: '16'}
  template:
    metadata: {labels: {team: ml, karpenter.sh/nodepool: gpu}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: big}
      taints: [{key: nvidia.com/gpu, value: 'true', effect: NoSchedule}]
      requirements: [{key: karpenter.k8s.aws/instance-category, operator: In, values: [g, p], minValues: 2}]
",
    );
    let converted = convert::node_pool(&pool, Arc::default()).unwrap();
    assert_eq!((converted.weight, converted.taints.len(), converted.fixed_size), (30, 1, false));
    assert_eq!(converted.limits.get(CPU).to_string(), "100");
    assert_eq!(converted.labels.len(), 1, "the pool's own label is not a template label");
    assert_eq!(
        converted.node_class_label,
        Some(("karpenter.k8s.aws/ec2nodeclass".to_owned(), "big".to_owned()))
    );
    assert_eq!(converted.requirements.min_values().next(), Some(("karpenter.k8s.aws/instance-category", 2)));
}

#[test]
fn a_pool_that_asks_for_a_restricted_label_is_refused_by_field() {
    let pool: NodePool = object(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: {nodeClassRef: {group: g, kind: k, name: n}, requirements: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}}}",
    );
    let error = convert::node_pool(&pool, Arc::default()).unwrap_err();
    assert_eq!(error.object, "NodePool p");
    assert_eq!(error.path.to_string(), "spec.template.spec.requirements[0]");
}

// Cases: CST-46, CST-47, SCH-A.4-5, SCH-A.4-17, SCH-H.6-1, SCH-H.6-2
#[test]
fn a_daemon_is_as_large_as_its_newest_pod_and_as_free_as_its_template() {
    let set: DaemonSet = object(
        "metadata: {name: agent, namespace: kube-system}\nspec: {selector: {}, template: {spec: {nodeSelector: {a: b}, containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}",
    );
    let newest: Pod = object(
        "metadata: {name: agent-x}\nspec: {containers: [{name: c, resources: {requests: {cpu: 300m}}}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}",
    );
    let from_template = convert::daemon_set(&set, None, &|_| None).unwrap();
    assert_eq!(from_template.pod.requests.get(CPU).to_string(), "100m");
    let from_pod = convert::daemon_set(&set, Some(&newest), &|_| None).unwrap();
    assert_eq!(from_pod.pod.requests.get(CPU).to_string(), "300m");
    assert!(from_pod.pod.required_node_affinity.is_empty(), "the pod is pinned to its node, the set is not");
}

// Cases: SCH-M.1-9, SCH-M.1-10, SCH-M.1-12, SCH-M.1-13, SCH-M.1-14, SCH-M.2-1, SCH-M.2-3, SCH-M.2-9, SCH-M.2-21, SCH-M.2-22
// Cases: SCH-M.2-24, SCH-M.3-1, SCH-M.3-2, SCH-M.3-3
#[test]
fn a_buffer_stands_for_as_many_pods_as_its_rules_say() {
    let template: PodTemplateSpec =
        object("spec: {containers: [{name: c, resources: {requests: {cpu: '2', memory: 1Gi}}}]}");
    let pods = |spec: &str, replicas: Option<i32>| {
        let buffer: CapacityBuffer = object(&format!(
            "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {{name: b, uid: u}}\nspec: {{{spec}}}"
        ));
        convert::virtual_pods(&buffer, &template, replicas).unwrap()
    };
    assert_eq!(pods("replicas: 3", None).len(), 3);
    assert_eq!(pods("percentage: 10", Some(11)).len(), 2);
    assert_eq!(pods("percentage: 10, replicas: 5", Some(11)).len(), 5);
    assert_eq!(pods("limits: {cpu: '7', memory: 100Gi}", None).len(), 3);
    assert_eq!(pods("replicas: 9, limits: {cpu: '7'}", None).len(), 3);
    assert_eq!(pods("percentage: 10", Some(0)).len(), 0);
    let first = &pods("replicas: 1", None)[0];
    assert_eq!((&*first.name, &*first.uid, first.buffer), ("capacity-buffer-b-1", "u-1", true));
}
