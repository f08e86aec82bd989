//! From pending pods to nodes: claims of the right shape, never two for the same pods, answers to what-if questions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use api::NodePool;
use integration::rpc::Impersonation;
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use model::labels;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::provisioner::v1::{
    CreateReplacementsRequest, ExplainPodRequest, GetSnapshotRequest, PlanRequest, SimulateManyRequest,
    SimulateRequest,
};
use proto::types::v1::PodRef;
use runtime::grpc::Caller;
use serde_json::{Value, json};

use crate::provisioning_batches::{instances, one_instance_a_claim};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("provisioning", alone, mixed_pods_become_nodes_that_fit_them_and_run),
        test!("provisioning", alone, a_pod_that_fits_nowhere_is_explained_once_and_nothing_is_made),
        test!("provisioning", alone, a_new_leader_makes_no_second_claim_for_the_same_pods),
        test!("provisioning", alone, questions_are_answered_and_a_command_makes_replacements_once),
    ]
}

/// What people's boards ask the provisioner for, by the reference's names; those of things that go wrong are not there
/// before they do.
const METRICS: [&str; 31] = [
    "karpenter_build_info ",
    "karpenter_nodeclaims_created_total ",
    "karpenter_nodes_created_total ",
    "karpenter_nodes_allocatable ",
    "karpenter_nodes_total_pod_requests ",
    "karpenter_nodes_system_overhead ",
    "karpenter_nodes_current_lifetime_seconds ",
    "karpenter_pods_state ",
    "karpenter_pods_startup_duration_seconds ",
    "karpenter_pods_bound_duration_seconds ",
    "karpenter_pods_provisioning_bound_duration_seconds ",
    "karpenter_pods_provisioning_startup_duration_seconds ",
    "karpenter_pods_scheduling_decision_duration_seconds ",
    "karpenter_nodepools_limit ",
    "karpenter_nodepools_usage ",
    "karpenter_nodepools_cost_total ",
    "karpenter_scheduler_scheduling_duration_seconds ",
    "karpenter_scheduler_queue_depth ",
    "karpenter_scheduler_unschedulable_pods_count ",
    "karpenter_scheduler_ignored_pods_count ",
    "karpenter_cluster_utilization_percent ",
    "karpenter_cluster_state_node_count ",
    "karpenter_cluster_state_synced ",
    "karpenter_cluster_state_unsynced_time_seconds ",
    "karpenter_cloudprovider_duration_seconds ",
    "karpenter_ec2nodeclasses_userdata_bytes ",
    "operator_nodeclaim_status_condition_count ",
    "operator_nodeclaim_status_condition_transition_seconds ",
    "operator_nodepool_status_condition_count ",
    "operator_ec2nodeclass_status_condition_count ",
    "leader_election_master_status ",
];

/// Everything from a pending pod to a running one and back; the provisioner, second in the list, gets these flags.
pub(crate) fn services(stack: &Stack, flags: &[&str]) -> Result<Vec<Service>> {
    Ok(vec![
        Service::start(stack, "pricing-cache", 1, &[])?,
        Service::start(stack, "provisioner", 1, flags)?,
        Service::start(stack, "termination", 1, &[])?,
    ])
}

pub(crate) fn stop(stack: &Stack, services: &[Service]) -> Result<()> {
    services.iter().rev().try_for_each(|service| service.stop(stack))
}

// Cases: CST-34, SCH-A.2-2
async fn mixed_pods_become_nodes_that_fit_them_and_run(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let workload = Workload::new(&stack, "mixed", json!({"limits": {"cpu": "2000"}}), json!({})).await?;
    let selector = |pairs: Value| json!({"nodeSelector": pairs});
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": labels::ZONE,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "spread"}}}]});
    workload.deploy("small", 20, "250m", json!({})).await?;
    workload.deploy("large", 10, "1500m", json!({})).await?;
    workload.deploy("arm", 8, "500m", selector(json!({labels::ARCH: "arm64"}))).await?;
    workload.deploy("ondemand", 4, "1", selector(json!({labels::CAPACITY_TYPE: "on-demand"}))).await?;
    workload.deploy("spread", 8, "300m", spread).await?;
    let mut placed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, count) in [("small", 20), ("large", 10), ("arm", 8), ("ondemand", 4), ("spread", 8)] {
        placed.insert(name, workload.running(name, count).await?);
    }
    let nodes = workload.nodes().await?;
    let label = |node: &String, key: &str| {
        nodes.get(node).and_then(|n| n.labels().get(key).cloned()).unwrap_or_default()
    };
    ensure!(placed["arm"].iter().all(|n| label(n, labels::ARCH) == "arm64"), "arm pods on other nodes");
    ensure!(
        placed["ondemand"].iter().all(|n| label(n, labels::CAPACITY_TYPE) == "on-demand"),
        "pods that asked for on-demand run on something else"
    );
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    placed["spread"].iter().for_each(|n| *zones.entry(label(n, labels::ZONE)).or_default() += 1);
    let (most, least) = (zones.values().max(), zones.values().min());
    ensure!(most.zip(least).is_some_and(|(m, l)| m - l <= 1), "spread over zones: {zones:?}");

    let claims = workload.claims().await?;
    ensure!(claims.len() == nodes.len(), "{} claims for {} nodes", claims.len(), nodes.len());
    let used: BTreeSet<&String> = placed.values().flatten().collect();
    ensure!(used.len() == nodes.len(), "{} of {} nodes run nothing", nodes.len() - used.len(), nodes.len());
    for claim in &claims {
        let name = claim.name_any();
        let annotated = |key: &str| claim.annotations().contains_key(key);
        ensure!(name.starts_with(&format!("{}-", workload.name)), "claim {name}");
        ensure!(annotated(labels::NODEPOOL_HASH) && annotated(labels::TRACEPARENT), "annotations of {name}");
        ensure!(claim.finalizers().iter().any(|f| f == labels::TERMINATION_FINALIZER), "finalizer of {name}");
        ensure!(claim.owner_references().iter().any(|o| o.kind == "NodePool"), "owner of {name}");
        let types =
            claim.spec.requirements.iter().find(|r| r.key == labels::INSTANCE_TYPE).context("types")?;
        ensure!((1..=600).contains(&types.values().len()), "{} types on {name}", types.values().len());
    }
    let provisioner = &running[1];
    let created = provisioner
        .metric("karpenter_nodeclaims_created_total", &format!("nodepool=\"{}\"", workload.name))?;
    ensure!(created as usize == claims.len(), "{created} creations counted for {} claims", claims.len());
    instances_are_what_their_claims_say(&stack, &workload).await?;

    // Ten times as many: what is there is used, and one node more is made for no pod twice.
    workload.scale("small", 470).await?;
    workload.running("small", 470).await?;
    let grown = workload.claims().await?;
    let before: BTreeSet<String> = claims.iter().map(|c| c.name_any()).collect();
    let after: BTreeSet<String> = grown.iter().map(|c| c.name_any()).collect();
    ensure!(after.is_superset(&before), "nodes were replaced: {before:?} {after:?}");
    instances_are_what_their_claims_say(&stack, &workload).await?;
    let cost =
        provisioner.metric("karpenter_nodepools_cost_total", &format!("nodepool=\"{}\"", workload.name))?;
    ensure!(cost > 0.0, "the pool costs nothing");
    let bound = provisioner.metric("karpenter_pods_state", &format!("namespace=\"{}\"", workload.name))?;
    ensure!(bound as usize == 500, "{bound} of 500 pods are shown");
    let page = provisioner.admin_get("/metrics")?;
    let missing: Vec<&&str> = METRICS
        .iter()
        .filter(|name| !page.lines().any(|line| line.starts_with("# TYPE") && line.contains(*name)))
        .collect();
    ensure!(missing.is_empty(), "metrics that the reference has: {missing:?}");
    ensure!(provisioner.metric("karpenter_provisioner_unsound_plans_total", "")? == 0.0, "an unsound plan");
    let disruption = Service::start(&stack, "disruption", 1, &[])?;
    nothing_is_left_without_pods(&stack, &workload, &placed).await?;
    disruption.stop(&stack)?;
    workload.remove().await?;
    stop(&stack, &running)
}

/// Scaled to nothing, the cluster has no node, no claim and no instance any more.
async fn nothing_is_left_without_pods(
    stack: &Stack,
    workload: &Workload,
    deployments: &BTreeMap<&str, Vec<String>>,
) -> Result<()> {
    let pools: Api<NodePool> = Api::all(workload.client.clone());
    let at_once = json!({"spec": {"disruption": {
        "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}],
    }}});
    pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(at_once)).await?;
    for name in deployments.keys() {
        workload.scale(name, 0).await?;
    }
    eventually("claims and nodes to be gone", || async {
        Ok((workload.claims().await?.is_empty() && workload.nodes().await?.is_empty()).then_some(()))
    })
    .await?;
    let left = aws::get(stack, "/instances?state=running")?;
    let left = left["instances"].as_array().cloned().context("a list of instances")?;
    let ours: Vec<_> =
        left.iter().filter(|i| i["tags"]["karpenter.sh/nodepool"] == workload.name.as_str()).collect();
    ensure!(ours.is_empty(), "instances without a claim: {ours:?}");
    Ok(())
}

/// One instance a claim, tagged for its pool, and of the type, zone and way of buying that claim and node say.
async fn instances_are_what_their_claims_say(stack: &Stack, workload: &Workload) -> Result<()> {
    one_instance_a_claim(stack, workload).await?;
    let all = instances(stack, workload)?;
    let nodes = workload.nodes().await?;
    for claim in workload.claims().await? {
        let name = claim.name_any();
        let status = claim.status.clone().unwrap_or_default();
        let provider_id = status.provider_id.unwrap_or_default();
        let own = all.iter().find(|i| i["id"].as_str().is_some_and(|id| provider_id.ends_with(id)));
        let tags = &own.context("its instance")?["tags"];
        let named = &tags["karpenter.sh/nodeclaim"];
        ensure!(named.is_null() || *named == name, "{name}: {tags}");
        ensure!(tags["karpenter.k8s.aws/ec2nodeclass"] == workload.name, "{tags}");
        ensure!(tags["eks:eks-cluster-name"] == stack.var("CLUSTER_NAME")?, "{tags}");
        let node = status.node_name.and_then(|node| nodes.get(&node)).context("the claim's node")?;
        for key in
            [labels::INSTANCE_TYPE, labels::ZONE, labels::CAPACITY_TYPE, labels::ARCH, labels::NODEPOOL]
        {
            let (on_claim, on_node) = (claim.labels().get(key), node.labels().get(key));
            ensure!(
                on_claim.is_some() && on_claim == on_node,
                "{key} of {name}: {on_claim:?} and {on_node:?}"
            );
        }
    }
    Ok(())
}

pub(crate) async fn events(workload: &Workload, pod: &str, reason: &str) -> Result<Vec<Event>> {
    let fields = format!("involvedObject.name={pod},reason={reason}");
    let events: Api<Event> = Api::namespaced(workload.client.clone(), &workload.name);
    let found = events.list(&ListParams::default().fields(&fields)).await?.items;
    let ours = |e: &Event| e.source.as_ref().and_then(|s| s.component.as_deref()) == Some("karpenter");
    Ok(found.into_iter().filter(ours).collect())
}

// Cases: POD-16, SCH-B.16-1, SCH-G.1-15, SCH-K-42
async fn a_pod_that_fits_nowhere_is_explained_once_and_nothing_is_made(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let workload = Workload::new(&stack, "nowhere", json!({}), json!({})).await?;
    workload.deploy("giant", 1, "9000", json!({})).await?;
    let pod = eventually("the pod", || async {
        Ok(workload.pods().list(&ListParams::default()).await?.items.first().map(|p| p.name_any()))
    })
    .await?;
    let told = eventually("an event that says why", || async {
        Ok(events(&workload, &pod, "FailedScheduling")
            .await?
            .into_iter()
            .find_map(|e| e.message.filter(|m| m.contains("cpu"))))
    })
    .await?;
    ensure!(told.contains(&workload.name) && told.contains("9k"), "{told}");
    // Decided about every ten seconds, told once in five minutes.
    let provisioner = &running[1];
    let decisions = || provisioner.metric("karpenter_scheduler_scheduling_duration_seconds_count", "");
    let before = decisions()?;
    eventually("two more decisions", || async { Ok((decisions()? >= before + 2.0).then_some(())) }).await?;
    let told = events(&workload, &pod, "FailedScheduling").await?;
    let same = told.iter().filter(|e| e.message.as_ref().is_some_and(|m| m.contains("cpu"))).count();
    ensure!(same == 1, "told {same} times: {told:?}");
    ensure!(workload.claims().await?.is_empty(), "a claim was made for a pod that fits nowhere");
    ensure!(provisioner.metric("karpenter_scheduler_unschedulable_pods_count", "")? >= 1.0, "not counted");
    let anywhere = provisioner
        .metric("karpenter_scheduler_pending_pods_by_effective_zone_count", "zone=\"flexible\"")?;
    ensure!(anywhere >= 1.0, "a pod that waits is counted by the zone it could run in: {anywhere}");

    let person =
        Impersonation::new(&stack, runtime::Service::Disruption, runtime::Service::Provisioner).await?;
    let mut client = ProvisionerClient::new(person.peers.leader());
    let seen =
        client.get_snapshot(GetSnapshotRequest { with_nodes: false, with_pending: true }).await?.into_inner();
    let pending =
        seen.pending.iter().find(|p| p.pod.as_ref().is_some_and(|r| r.name == pod)).context("not pending")?;
    ensure!(pending.reason.contains("cpu"), "{pending:?}");

    // Devices are nothing that nodes are made for yet, and whoever asks for one is told. kube-scheduler looks only at pods
    // whose claims exist, and before it has looked there is nothing to tell.
    let device: ResourceClaim = serde_json::from_value(json!({
        "metadata": {"name": "device"},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "none.example.com"}}]}}
    }))?;
    let devices: Api<ResourceClaim> = Api::namespaced(workload.pods().into_client(), &workload.name);
    devices.create(&PostParams::default(), &device).await?;
    let claims = json!({"resourceClaims": [{"name": "device", "resourceClaimName": "device"}]});
    workload.deploy("device", 1, "100m", claims).await?;
    eventually("an event that names resource claims", || async {
        let pods = workload.pods().list(&ListParams::default().labels("app=device")).await?.items;
        let Some(pod) = pods.first().map(|p| p.name_any()) else { return Ok(None) };
        let told = events(&workload, &pod, "FailedScheduling").await?;
        let names_them = |e: &Event| e.message.as_ref().is_some_and(|m| m.contains("resource claims"));
        Ok(told.iter().any(names_them).then_some(()))
    })
    .await?;
    ensure!(workload.claims().await?.is_empty(), "a claim was made for a pod that asks for a device");
    workload.remove().await?;
    stop(&stack, &running)
}

// Cases: SCH-B.8-18, SCH-B.10-1
async fn a_new_leader_makes_no_second_claim_for_the_same_pods(stack: Stack) -> Result<()> {
    let cache = Service::start(&stack, "pricing-cache", 1, &[])?;
    let termination = Service::start(&stack, "termination", 1, &[])?;
    let (one, two) =
        (Service::start(&stack, "provisioner", 1, &[])?, Service::start(&stack, "provisioner", 2, &[])?);
    let leads = |s: &Service| s.metric("leader_election_master_status", "").is_ok_and(|v| v > 0.0);
    eventually("a leader", || async { Ok((leads(&one) || leads(&two)).then_some(())) }).await?;
    let (leader, follower) = if leads(&one) { (one, two) } else { (two, one) };
    let workload = Workload::new(&stack, "leader", json!({}), json!({})).await?;
    // Two zones are allowed, so that nothing on an unlaunched claim says where it will be.
    workload.deploy("kept", 12, "1", json!({})).await?;
    let first = eventually("the first claims", || async {
        let names: BTreeSet<String> = workload.claims().await?.iter().map(|c| c.name_any()).collect();
        Ok((!names.is_empty()).then_some(names))
    })
    .await?;
    leader.kill(&stack)?;
    eventually("the follower to lead", || async { Ok(leads(&follower).then_some(())) }).await?;
    workload.running("kept", 12).await?;
    let last: BTreeSet<String> = workload.claims().await?.iter().map(|c| c.name_any()).collect();
    ensure!(last == first, "claims before the leader was killed: {first:?}, after: {last:?}");
    workload.remove().await?;
    stop(&stack, &[cache, termination, follower])
}

async fn questions_are_answered_and_a_command_makes_replacements_once(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let workload = Workload::new(&stack, "questions", json!({}), json!({})).await?;
    workload.deploy("asked", 3, "1", json!({})).await?;
    let mut nodes = workload.running("asked", 3).await?;
    nodes.sort();
    nodes.dedup();
    let person = Impersonation::person(&stack, runtime::Service::Provisioner).await?;
    let mut client: ProvisionerClient<Caller> = ProvisionerClient::new(person.peers.leader());

    let removal = SimulateRequest { remove_nodes: nodes.clone(), ..SimulateRequest::default() };
    let answer = client.simulate(removal.clone()).await?.into_inner();
    ensure!(answer.unschedulable.is_empty(), "{:?}", answer.unschedulable);
    let moved: usize = answer.new_nodes.iter().map(|n| n.pods.len()).sum::<usize>() + answer.placements.len();
    ensure!(moved == 3, "{moved} of 3 pods found a place: {answer:?}");
    ensure!(answer.removed_micro_usd_per_hour.is_some_and(|price| price > 0), "no price for {nodes:?}");
    let uids = answer.new_nodes.iter().flat_map(|n| &n.pods).filter(|p| !p.uid.is_empty()).count();
    ensure!(uids == answer.new_nodes.iter().map(|n| n.pods.len()).sum::<usize>(), "pods without uid");

    let asked = (0..20).map({
        let removal = removal.clone();
        move |id| SimulateManyRequest { id, request: Some(removal.clone()) }
    });
    let unknown = SimulateRequest { remove_nodes: vec!["no-such-node".into()], ..SimulateRequest::default() };
    let asked = asked.chain([SimulateManyRequest { id: 99, request: Some(unknown) }]).collect::<Vec<_>>();
    let mut answers = client.simulate_many(futures::stream::iter(asked)).await?.into_inner();
    let (mut good, mut bad) = (BTreeSet::new(), Vec::new());
    while let Some(one) = answers.message().await? {
        match one.response {
            Some(_) => drop(good.insert(one.id)),
            None => bad.push((one.id, one.error)),
        }
    }
    ensure!(good == (0..20).collect::<BTreeSet<_>>(), "answered: {good:?}");
    ensure!(bad.len() == 1 && bad[0].1.contains("no-such-node"), "{bad:?}");

    let pods = workload.pods().list(&ListParams::default()).await?.items;
    let pod = PodRef { namespace: workload.name.clone(), name: pods[0].name_any(), uid: String::new() };
    let explained = client.explain_pod(ExplainPodRequest { pod: Some(pod) }).await?.into_inner();
    ensure!(explained.summary.contains("runs on node") && nodes.contains(&explained.node), "{explained:?}");

    // Without the pods the nodes would be empty, and would go.
    let without = pods.iter().map(|p| format!("Pod/{}/{}", workload.name, p.name_any())).collect();
    let pools: Api<NodePool> = Api::all(workload.pods().into_client());
    let mut eager = pools.get(&workload.name).await?;
    eager.spec.disruption.consolidate_after = "0s".parse()?;
    let question = PlanRequest {
        objects_json: vec![serde_json::to_string(&eager)?],
        remove_objects: without,
        consolidate: true,
        ..PlanRequest::default()
    };
    let plan = client.plan(question).await?.into_inner();
    let found = plan.consolidation.context("no consolidation in the plan")?;
    let gone: BTreeSet<&String> = found.commands.iter().flat_map(|c| &c.remove_nodes).collect();
    ensure!(nodes.iter().all(|node| gone.contains(node)), "{nodes:?} stay: {found:?}");
    let saved: i64 = found.commands.iter().map(|c| c.saving_micro_usd_per_hour).sum();
    ensure!(
        saved > 0 && found.before_micro_usd_per_hour - saved == found.after_micro_usd_per_hour,
        "{found:?}"
    );
    let plain = client.plan(PlanRequest::default()).await?.into_inner();
    ensure!(plain.consolidation.is_none(), "consolidated without being asked to: {plain:?}");

    // Whatever the answer was, a replacement for the pods is what the command asks for.
    let below = i64::MAX;
    let dearer = client
        .simulate(SimulateRequest { replacement_below_micro_usd: below, ..removal })
        .await?
        .into_inner();
    let nodes_wanted = if dearer.new_nodes.is_empty() { answer.new_nodes.clone() } else { dearer.new_nodes };
    ensure!(!nodes_wanted.is_empty(), "no node but new ones can take the pods: {answer:?}");
    let command = CreateReplacementsRequest {
        command_id: format!("command-{}", workload.name),
        nodes: nodes_wanted,
        reason: "Drifted".into(),
        replaces: Vec::new(),
    };
    let first = client.create_replacements(command.clone()).await?.into_inner();
    let second = client.create_replacements(command).await?.into_inner();
    ensure!(!first.already_existed && second.already_existed, "{first:?} {second:?}");
    ensure!(first.node_claims == second.node_claims, "{first:?} {second:?}");
    workload.remove().await?;
    stop(&stack, &running)
}
