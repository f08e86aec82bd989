use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use model::pod::{NodeInclusionPolicy, PodSpec as Spec, WhenUnsatisfiable};
use model::resources::{CPU, MEMORY};

use super::object;
use super::volumes::Shelf;
use crate::convert::{self, At, Error, PodContext, Specs, is_provisionable};

fn spec(yaml: &str) -> Spec {
    try_spec(yaml).unwrap()
}

fn try_spec(yaml: &str) -> Result<Spec, Error> {
    let written: PodSpec = object(yaml);
    convert::pod_spec(None, &written, None, &|name| (name == "high").then_some(1000), &At::Root.key("spec"))
        .map_err(|invalid| invalid.of("Pod", Some("default"), Some("a")))
}

fn pod(yaml: &str) -> model::pod::Pod {
    let written: Pod = object(yaml);
    let empty = PodSpec::default();
    let spec = convert::pod_spec(
        written.metadata.labels.as_ref(),
        written.spec.as_ref().unwrap_or(&empty),
        written.status.as_ref(),
        &|_| None,
        &At::Root,
    )
    .unwrap();
    let context =
        PodContext { storage: &Shelf::default(), budgets: &[], now: "2026-01-02T00:00:00Z".parse().unwrap() };
    convert::pod(&written, Arc::new(spec), &context).unwrap()
}

fn requests(yaml: &str) -> (String, String) {
    let spec = spec(yaml);
    (spec.requests.get(CPU).to_string(), spec.requests.get(MEMORY).to_string())
}

// Cases: SCH-K-73, SCH-M.2-4
#[test]
fn containers_add_up_and_limits_stand_in_for_requests() {
    let yaml = "containers:\n- {name: a, resources: {requests: {cpu: 500m, memory: 1Gi}}}\n- {name: b, resources: {limits: {cpu: '1', memory: 1Gi}}}\n";
    assert_eq!(requests(yaml), ("1500m".to_owned(), "2Gi".to_owned()));
}

// Cases: SCH-A.2-16, SCH-A.2-18, SCH-M.2-5, SCH-M.2-6, SCH-M.2-20
#[test]
fn init_steps_count_by_their_largest_and_sidecars_always() {
    let yaml = "
containers: [{name: a, resources: {requests: {cpu: '1', memory: 1Gi}}}]
initContainers:
- {name: first, resources: {requests: {cpu: '2', memory: 512Mi}}}
- {name: proxy, restartPolicy: Always, resources: {requests: {cpu: 500m, memory: 256Mi}}}
- {name: second, resources: {requests: {cpu: 1800m, memory: 3Gi}}}
";
    // CPU: max(1 + 0.5, 2, 0.5, 1.8 + 0.5); memory: max(1Gi + 256Mi, 512Mi, 3Gi + 256Mi)
    assert_eq!(requests(yaml), ("2300m".to_owned(), "3328Mi".to_owned()));
}

// Cases: SCH-A.2-19, SCH-B.7-3
#[test]
fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
    let yaml = "
containers: [{name: a, resources: {requests: {cpu: '1', memory: 1Gi}}}]
resources: {requests: {cpu: '3'}}
overhead: {cpu: 250m, memory: 120Mi}
";
    assert_eq!(requests(yaml), ("3250m".to_owned(), "1144Mi".to_owned()));
}

/// The CPU of a pod that asks for `asked`, with the rest of its container's status and of its own.
fn resized(asked: &str, container: &str, status: &str) -> String {
    let written: Pod = object(&format!(
        "
metadata: {{name: a}}
spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {asked}}}}}}}]}}
status: {{containerStatuses: [{{name: c, image: '', imageID: '', ready: true, restartCount: 0, {container}}}], {status}}}
"
    ));
    let spec = written.spec.as_ref().unwrap();
    let spec = convert::pod_spec(None, spec, written.status.as_ref(), &|_| None, &At::Root).unwrap();
    spec.requests.get(CPU).to_string()
}

// Cases: SCH-K-24
#[test]
fn a_resize_in_progress_counts_by_the_larger_side() {
    assert_eq!(resized("500m", "allocatedResources: {cpu: '2'}", ""), "2");
    // Smaller, and not carried out yet.
    let running = "allocatedResources: {cpu: 500m}, resources: {requests: {cpu: '1'}}";
    assert_eq!(resized("500m", running, ""), "1");
}

#[test]
fn a_resize_that_is_infeasible_counts_by_what_the_container_has() {
    let has = "allocatedResources: {cpu: '1'}, resources: {requests: {cpu: '1'}}";
    assert_eq!(resized("64", has, ""), "64");
    let pending = "conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}]";
    assert_eq!(resized("64", has, pending), "1");
    assert_eq!(resized("64", has, "resize: Infeasible"), "1", "before 1.33");
    let deferred = "conditions: [{type: PodResizePending, status: 'True', reason: Deferred}]";
    assert_eq!(resized("64", has, deferred), "64");
}

#[test]
fn spread_constraints_get_the_api_servers_defaults() {
    let spec = spec(
        "containers: []\ntopologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3}]",
    );
    let constraint = &spec.topology_spread[0];
    assert_eq!((constraint.max_skew, constraint.min_domains), (2, Some(3)));
    assert_eq!(constraint.when_unsatisfiable, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!(constraint.node_affinity_policy, NodeInclusionPolicy::Honor);
    assert_eq!(constraint.node_taints_policy, NodeInclusionPolicy::Ignore);
    assert_eq!(constraint.selector, None);
}

#[test]
fn host_network_makes_every_port_a_host_port() {
    let ports = "ports: [{containerPort: 8080}, {containerPort: 53, hostPort: 5353, protocol: UDP, hostIP: 10.0.0.1}]";
    assert_eq!(spec(&format!("containers: [{{name: a, {ports}}}]")).host_ports.len(), 1);
    assert_eq!(spec(&format!("hostNetwork: true\ncontainers: [{{name: a, {ports}}}]")).host_ports.len(), 2);
}

#[test]
fn host_ports_of_sidecars_count_and_those_of_init_steps_do_not() {
    let of = |policy: &str| {
        let yaml = format!(
            "containers: [{{name: a}}]\ninitContainers: [{{name: b, {policy} ports: [{{containerPort: 1, hostPort: 9100}}]}}]"
        );
        spec(&yaml).host_ports.iter().map(|port| port.port).collect::<Vec<_>>()
    };
    assert_eq!(of("restartPolicy: Always,"), [9100]);
    assert!(of("").is_empty());
}

#[test]
fn priority_comes_from_the_number_else_the_class() {
    assert_eq!(spec("containers: []\npriority: 7\npriorityClassName: high").priority, 7);
    assert_eq!(spec("containers: []\npriorityClassName: high").priority, 1000);
    assert_eq!(spec("containers: []\npriorityClassName: system-node-critical").priority, 2_000_001_000);
    assert_eq!(spec("containers: []\npriorityClassName: unknown").priority, 0);
}

#[test]
fn errors_name_object_and_field() {
    let check = |yaml: &str, field: &str| {
        let error = try_spec(yaml).unwrap_err();
        assert_eq!((error.object.as_str(), error.path.to_string().as_str()), ("Pod default/a", field));
    };
    check(
        "containers: [{name: a, resources: {requests: {nvidia.com/gpu: x}}}]",
        "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]",
    );
    check("containers: []\ntolerations: [{operator: Near}]", "spec.tolerations[0].operator");
    check(
        "containers: []\ntopologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
        "spec.topologySpreadConstraints[0].maxSkew",
    );
    check(
        "containers: []\naffinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Like}]}]}}}",
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
    );
    check(
        "containers: [{name: a, ports: [{containerPort: 1, hostPort: 70000}]}]",
        "spec.containers[0].ports[0].hostPort",
    );
}

// Cases: SCH-B.3-2
#[test]
fn a_pod_that_opts_out_or_asks_for_the_impossible_is_rejected_with_a_sentence() {
    let rejected =
        |spec: &str| pod(&format!("metadata: {{name: a}}\nspec:\n  containers: []\n{spec}")).rejected;
    assert_eq!(rejected("  nodeSelector: {zone: a}"), None);
    let key = rejected("  nodeSelector: {karpenter.sh/anything: a}").unwrap();
    assert!(key.contains("karpenter.sh/anything"), "{key}");
    let bought = rejected("  nodeSelector: {karpenter.sh/capacity-type: cheap}").unwrap();
    assert!(bought.contains("cheap"), "{bought}");
    let affinity = |expression: &str| {
        rejected(&format!(
            "  affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{{expression}}}]}}}}}}"
        ))
    };
    let out = affinity("matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]").unwrap();
    assert!(out.contains("none of ours"), "{out}");
    let fields = affinity("matchFields: [{key: metadata.name, operator: In, values: [n]}]").unwrap();
    assert!(fields.contains("matchFields"), "{fields}");
}

#[test]
fn a_running_pod_is_never_rejected() {
    let bound = pod(
        "metadata: {name: a}\nspec: {nodeName: n, containers: [], nodeSelector: {karpenter.sh/anything: a}}",
    );
    assert_eq!((bound.node.as_deref(), bound.rejected), (Some("n"), None));
}

// Cases: SCH-B.12-2, SCH-B.12-3, SCH-B.12-4, SCH-B.12-5, SCH-K-69
#[test]
fn owners_and_deletion_decide_who_needs_a_new_place() {
    let owned = |owner: &str, more: &str| {
        pod(&format!(
            "metadata: {{name: a{more}, ownerReferences: [{{apiVersion: {owner}, name: o, uid: u}}]}}\nspec: {{nodeName: n, containers: []}}"
        ))
    };
    let deleting = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
    assert!(owned("apps/v1, kind: ReplicaSet", "").reschedulable);
    assert!(!owned("apps/v1, kind: ReplicaSet", deleting).reschedulable);
    assert!(owned("apps/v1, kind: StatefulSet", deleting).reschedulable);
    let daemon = owned("apps/v1, kind: DaemonSet", "");
    assert!(daemon.bound_to_node && daemon.daemon && !daemon.reschedulable);
    let mirror = owned("v1, kind: Node", "");
    assert!(mirror.bound_to_node && !mirror.daemon && !mirror.reschedulable);
}

#[test]
fn do_not_disrupt_holds_for_good_or_for_a_while() {
    let held = |value: &str, start: &str| {
        pod(&format!(
            "metadata: {{name: a, annotations: {{karpenter.sh/do-not-disrupt: {value}}}}}\nspec: {{nodeName: n, containers: []}}\nstatus: {{{start}}}"
        ))
        .do_not_disrupt
    };
    assert!(held("'true'", ""));
    assert!(!held("'false'", ""));
    assert!(held("25h", "startTime: '2026-01-01T00:00:00Z'"));
    assert!(!held("23h", "startTime: '2026-01-01T00:00:00Z'"));
    assert!(held("1m", ""));
    assert!(!held("-5m", ""));
}

#[test]
fn only_pods_that_the_scheduler_gave_up_on_are_provisionable() {
    let condition = "conditions: [{type: PodScheduled, status: 'False', reason: REASON}]";
    let waits = |reason: &str, spec: &str, more: &str| {
        let written: Pod = object(&format!(
            "metadata: {{name: a}}\nspec: {{containers: []{spec}}}\nstatus: {{{}{more}}}",
            condition.replace("REASON", reason)
        ));
        is_provisionable(&written)
    };
    assert!(waits("Unschedulable", "", ""));
    assert!(!waits("SchedulingGated", "", ""));
    assert!(!waits("Unschedulable", ", nodeName: n", ""));
    assert!(!waits("Unschedulable", "", ", nominatedNodeName: n"));
}

#[test]
fn equal_specs_are_shared_and_forgotten_with_their_last_pod() {
    let mut specs = Specs::default();
    let make =
        |cpu: &str| spec(&format!("containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]"));
    let first = specs.share(make("500m"));
    assert!(Arc::ptr_eq(&first, &specs.share(make("0.5"))));
    assert!(!Arc::ptr_eq(&first, &specs.share(make("501m"))));
    let address = Arc::downgrade(&first);
    drop(first);
    assert!(address.upgrade().is_none(), "the table must not keep specs alive");
}

#[test]
fn an_instant_is_an_argument() {
    // Two instants, two answers, same object.
    let written: Pod = object(
        "metadata: {name: a, annotations: {karpenter.sh/do-not-disrupt: 1h}}\nstatus: {startTime: '2026-01-01T00:00:00Z'}",
    );
    let at = |text: &str| convert::do_not_disrupt(&written, text.parse::<Timestamp>().unwrap());
    assert!(at("2026-01-01T00:59:59Z") && !at("2026-01-01T01:00:00Z"));
}
