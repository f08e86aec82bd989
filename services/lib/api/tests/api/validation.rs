//! What the API server lets pass and we then refuse to use.

use api::validate::{self, message};
use api::{NodeOverlay, NodePool};
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

fn pool(metadata: Value, spec: Value) -> Vec<String> {
    let mut template = json!({"metadata": metadata, "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
        "requirements": [],
    }});
    for (field, value) in spec.as_object().unwrap() {
        template["spec"][field] = value.clone();
    }
    let pool: NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {"template": template},
    }))
    .unwrap();
    validate::node_pool(&pool).iter().map(ToString::to_string).collect()
}

fn requirement(requirement: Value) -> Vec<String> {
    pool(json!({}), json!({"requirements": [requirement]}))
}

#[track_caller]
fn refused(problems: Vec<String>, part: &str) {
    assert!(problems.iter().any(|problem| problem.contains(part)), "{part:?} is not in {problems:?}");
}

#[track_caller]
fn fine(problems: Vec<String>) {
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn an_ordinary_pool_is_fine() {
    fine(pool(
        json!({"labels": {"team": "a", "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/role": "web"}}),
        json!({
            "taints": [{"key": "dedicated", "value": "example.com/batch", "effect": "NoSchedule"}, {"key": "dedicated", "effect": "NoExecute"}],
            "startupTaints": [{"key": "agent", "effect": "NoExecute"}],
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "odd"]},
                {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["0"]},
                {"key": "beta.kubernetes.io/arch", "operator": "Exists"},
                {"key": "team", "operator": "NotIn", "values": []},
            ],
        }),
    ));
}

#[test]
fn labels_of_a_pool_are_checked() {
    refused(pool(json!({"labels": {"karpenter.sh/nodepool": "a"}}), json!({})), "the pool's own name");
    refused(pool(json!({"labels": {"karpenter.k8s.aws/ec2nodeclass": "a"}}), json!({})), "is restricted");
    refused(pool(json!({"labels": {"kubernetes.io/hostname": "a"}}), json!({})), "is restricted");
    refused(pool(json!({"labels": {"a/b/c": "a"}}), json!({})), "is no label key");
    refused(pool(json!({"labels": {"team": "a b"}}), json!({})), "is no value of label team");
    fine(pool(json!({"labels": {"notkarpenter.sh/team": "a"}}), json!({})));
}

#[test]
fn taints_of_a_pool_are_checked_across_both_lists() {
    let twice = json!({
        "taints": [{"key": "a", "value": "x", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "a", "effect": "NoSchedule"}],
    });
    refused(pool(json!({}), twice), "taint a:NoSchedule is listed twice");
    let long = "x".repeat(64);
    refused(pool(json!({}), json!({"taints": [{"key": long, "effect": "NoSchedule"}]})), "is no taint key");
    refused(
        pool(json!({}), json!({"taints": [{"key": "a", "value": long, "effect": "NoSchedule"}]})),
        "is no value of taint a",
    );
    fine(pool(json!({}), json!({"taints": [{"key": "a", "value": "", "effect": "NoSchedule"}]})));
}

#[test]
fn requirements_of_a_pool_are_checked() {
    refused(
        requirement(json!({"key": "karpenter.sh/nodepool", "operator": "Exists"})),
        "the pool's own name",
    );
    refused(
        requirement(json!({"key": "karpenter.k8s.aws/ec2nodeclass", "operator": "Exists"})),
        "is restricted",
    );
    refused(requirement(json!({"key": "team", "operator": "Near", "values": ["a"]})), "\"Near\" is none of");
    refused(requirement(json!({"key": "team", "operator": "In", "values": []})), "needs at least one value");
    refused(requirement(json!({"key": "team", "operator": "In", "values": ["a b"]})), "is no label value");
    refused(
        requirement(json!({"key": "team", "operator": "In", "values": ["a"], "minValues": 2})),
        "minValues asks for 2",
    );
    refused(
        requirement(json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["odd"]})),
        "none of the values",
    );
    refused(
        requirement(
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "odd"], "minValues": 2}),
        ),
        "1 known values where minValues asks for 2",
    );
    refused(
        requirement(json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["many"]})),
        "one integer",
    );
}

#[test]
fn all_problems_of_a_pool_are_reported_together() {
    let problems = pool(
        json!({"labels": {"team": "a b"}}),
        json!({"requirements": [{"key": "team", "operator": "In", "values": []}]}),
    );
    assert_eq!(problems.len(), 2, "{problems:?}");
}

fn overlay(spec: Value) -> Vec<String> {
    let overlay: NodeOverlay = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "a"}, "spec": spec,
    }))
    .unwrap();
    validate::node_overlay(&overlay).iter().map(ToString::to_string).collect()
}

#[test]
fn an_overlay_may_add_only_resources_that_are_not_known_from_the_type() {
    for name in [
        "cpu",
        "memory",
        "ephemeral-storage",
        "pods",
        "vpc.amazonaws.com/pod-eni",
        "vpc.amazonaws.com/efa",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
    ] {
        refused(overlay(json!({"requirements": [], "capacity": {name: 1}})), "cannot be overlaid");
    }
    fine(overlay(
        json!({"requirements": [], "capacity": {"nvidia.com/gpu": 1, "amd.com/gpu": 1, "example.com/fpga": "2"}}),
    ));
}

#[test]
fn requirements_of_an_overlay_are_checked() {
    refused(
        overlay(json!({"requirements": [{"key": "team", "operator": "NotIn", "values": []}]})),
        "NotIn needs at least one value",
    );
    refused(
        overlay(json!({"requirements": [{"key": "karpenter.sh/registered", "operator": "Exists"}]})),
        "is restricted",
    );
    fine(overlay(
        json!({"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]}),
    ));
}

fn pod(spec: Value) -> Vec<String> {
    let mut pod = spec;
    pod["containers"] = json!([]);
    let pod: PodSpec = serde_json::from_value(pod).unwrap();
    validate::pod(&pod).iter().map(ToString::to_string).collect()
}

fn affinity(terms: Value) -> Vec<String> {
    pod(
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}),
    )
}

// Cases: SCH-B.3-1
#[test]
fn pods_may_select_only_on_labels_that_a_new_node_can_have() {
    fine(pod(
        json!({"nodeSelector": {"karpenter.sh/nodepool": "a", "team": "b", "failure-domain.beta.kubernetes.io/zone": "c"}}),
    ));
    refused(pod(json!({"nodeSelector": {"kubernetes.io/hostname": "a"}})), "is restricted");
    refused(pod(json!({"nodeSelector": {"karpenter.k8s.aws/ec2nodeclass": "a"}})), "is restricted");
    refused(pod(json!({"nodeSelector": {"karpenter.sh/capacity-type": "free"}})), "none of the values");
}

// Cases: SCH-B.3-1
#[test]
fn every_required_affinity_term_of_a_pod_is_checked() {
    let good = json!({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]});
    let bad = json!({"matchExpressions": [{"key": "karpenter.sh/registered", "operator": "Exists"}]});
    fine(affinity(json!([good])));
    refused(affinity(json!([good, bad])), "karpenter.sh/registered is restricted");
    refused(
        affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}])),
        "matchFields",
    );
    fine(pod(
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": bad}]}}}),
    ));
    fine(pod(json!({})));
}

#[test]
fn problems_become_one_message() {
    let overlay: NodeOverlay = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "a"},
        "spec": {"requirements": [], "capacity": {"cpu": 1, "memory": 1}},
    }))
    .unwrap();
    assert_eq!(
        message(&validate::node_overlay(&overlay)),
        "resource cpu is known from the instance type and cannot be overlaid; \
         resource memory is known from the instance type and cannot be overlaid"
    );
}
