//! Removing nodes: drains within budgets, deadlines, volumes, dead nodes, foreign instances, garbage, and a killed service.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use integration::{Stack, Test, aws, eventually, test};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::json;

use crate::removal_scene::{FINALIZER, Options, Scene};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("termination", alone, a_claim_goes_with_its_node_pods_and_instance),
        test!("termination", alone, a_deleted_node_takes_its_claim_and_instance_along),
        test!("termination", alone, three_nodes_drained_at_once_leave_two_of_three_replicas_ready),
        test!("termination", alone, a_budget_that_allows_nothing_holds_until_the_grace_period_ends),
        test!("termination", alone, a_do_not_disrupt_pod_holds_its_node_until_the_annotation_goes),
        test!("termination", alone, an_attached_volume_holds_the_instance_until_it_is_detached),
        test!("termination", alone, a_dead_node_goes_at_once_although_a_pod_is_on_it),
        test!("termination", alone, a_claim_whose_instance_was_ended_behind_our_back_is_collected),
        test!("termination", alone, a_claim_deleted_before_its_launch_goes_and_leaves_no_instance),
        test!("termination", alone, an_instance_that_is_not_provably_ours_is_never_ended),
        test!("termination", alone, an_instance_without_claim_is_collected_and_a_foreign_one_is_not),
        test!("termination", alone, a_claim_that_shares_its_instance_leaves_it_to_the_other),
        test!("termination", alone, terminate_stores_deletion_and_deadline_and_refuses_namesakes),
        test!("termination", alone, two_hundred_nodes_go_at_once),
        test!("termination", alone, a_service_killed_in_the_middle_of_drains_is_taken_over_from),
    ]
}

async fn a_claim_goes_with_its_node_pods_and_instance(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "remove").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.node_is_ready(&name, true).await?;
    scene.pod("web", &name, json!({})).await?;
    let mirror = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "1"}]}});
    scene.pod("static", &name, mirror).await?;
    scene.delete_claim(&name).await?;

    let nodes: Api<Node> = Api::all(scene.client.clone());
    eventually("taint and label", || async {
        let node = nodes.get(&name).await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let labels = node.metadata.labels.unwrap_or_default();
        let excluded = labels.get("node.kubernetes.io/exclude-from-external-load-balancers");
        let tainted = taints.iter().any(|t| t.key == "karpenter.sh/disrupted" && t.effect == "NoSchedule");
        Ok((tainted && excluded.is_some_and(|value| value == "karpenter")).then_some(()))
    })
    .await?;
    eventually("the condition InstanceTerminating", || async {
        let found = scene.condition(&name, "InstanceTerminating").await?;
        let ready = scene.condition(&name, "Ready").await?;
        let drained = scene.condition(&name, "Drained").await?;
        let all =
            [found, drained, ready].into_iter().flatten().filter(|(status, _)| status == "True").count();
        Ok((all == 3).then_some(()))
    })
    .await
    .context("Drained, InstanceTerminating and still Ready")?;
    scene.is_gone(&name, &instance).await?;
    let evicted = scene.event(&scene.namespace, "web", "Evicted").await?;
    ensure!(evicted.contains("Forceful Termination"), "{evicted}");
    ensure!(
        scene.service.metric("karpenter_pods_eviction_requests_total", "code=\"200\"")? >= 1.0,
        "evictions"
    );
    for counter in [
        "karpenter_nodes_drained_total",
        "karpenter_nodes_terminated_total",
        "karpenter_nodeclaims_terminated_total",
    ] {
        ensure!(scene.service.metric(counter, "nodepool=\"removal\"")? == 1.0, "{counter}");
    }
    scene.no_drain_is_left().await?;
    scene.end()
}

async fn a_deleted_node_takes_its_claim_and_instance_along(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "by-node").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.node_is_ready(&name, true).await?;
    Api::<Node>::all(scene.client.clone()).delete(&name, &DeleteParams::default()).await?;
    scene.is_gone(&name, &instance).await?;
    scene.end()
}

async fn three_nodes_drained_at_once_leave_two_of_three_replicas_ready(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "budget").await?;
    let mut instances = Vec::new();
    for number in 0..6 {
        instances.push((scene.name(number), scene.node(&scene.name(number), &Options::default()).await?));
    }
    scene.budget("db", json!({"maxUnavailable": 1})).await?;
    scene
        .create(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "db"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "db"}},
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                    "nodeSelector": {"test": scene.namespace}, "terminationGracePeriodSeconds": 1,
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}]}},
                    "containers": [{"name": "c", "image": "registry.example/db"}],
                }},
            },
        }))
        .await?;
    let homes = eventually("three ready replicas", || async {
        let all = scene.pods().list(&ListParams::default().labels("app=db")).await?.items;
        let homes: Vec<String> = all
            .iter()
            .filter(|pod| is_ready(pod))
            .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
            .collect();
        Ok((homes.len() == 3).then_some(homes))
    })
    .await?;
    eventually("the budget to know them", || async {
        let pdbs: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
            Api::namespaced(scene.client.clone(), &scene.namespace);
        Ok(pdbs.get("db").await?.status.filter(|status| status.disruptions_allowed == 1).map(drop))
    })
    .await?;
    let fewest = AtomicUsize::new(3);
    let drained = async {
        for home in &homes {
            scene.delete_claim(home).await?;
        }
        eventually("the three nodes to be gone", || async {
            let left = scene.node_names().await?;
            Ok(homes.iter().all(|home| !left.contains(home)).then_some(()))
        })
        .await
    };
    tokio::select! {
        watched = fewest_ready(scene.pods(), &fewest) => watched?,
        drained = drained => drained?,
    }
    let fewest = fewest.into_inner();
    ensure!(
        fewest == 2,
        "{fewest} of 3 were ready at the worst moment; 2 is what the budget allows and a drain needs"
    );
    // With nowhere to go the budget would rightly hold the last nodes for good.
    let workload =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": scene.namespace}});
    integration::kubernetes::api_of(&scene.client, &workload)
        .await?
        .delete("db", &DeleteParams::default())
        .await?;
    for (name, instance) in instances {
        if !homes.contains(&name) {
            scene.delete_claim(&name).await?;
        }
        scene.is_gone(&name, &instance).await?;
    }
    scene.end()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// Follows every change of the replicas and notes the fewest that were ready at once. Never ends by itself.
pub(crate) async fn fewest_ready(pods: Api<Pod>, fewest: &AtomicUsize) -> Result<()> {
    let mut ready: BTreeSet<String> = BTreeSet::new();
    let mut listed = false;
    let events = watcher::watcher(pods, watcher::Config::default().labels("app=db"));
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event? {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) if is_ready(&pod) => {
                ready.insert(pod.name_any());
            }
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) | watcher::Event::Delete(pod) => {
                ready.remove(&pod.name_any());
            }
            watcher::Event::Init => {}
            watcher::Event::InitDone => listed = true,
        }
        if listed {
            fewest.fetch_min(ready.len(), Ordering::SeqCst);
        }
    }
    anyhow::bail!("the watch ended")
}

async fn a_budget_that_allows_nothing_holds_until_the_grace_period_ends(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "deadline").await?;
    let name = scene.name(1);
    let options = Options { grace_period: Some("25s"), ..Options::default() };
    let instance = scene.node(&name, &options).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("db", &name, json!({"spec": {"terminationGracePeriodSeconds": 5}})).await?;
    scene.delete_claim(&name).await?;
    let wait = scene.waits_for(&name, "pdb").await?;
    let detail = wait["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains(&format!("PDB {}/db allows 0 disruptions", scene.namespace)), "{detail}");
    ensure!(wait["forcedAt"].is_string(), "{wait}");
    ensure!(scene.pods().get("db").await?.metadata.deletion_timestamp.is_none(), "evicted past its budget");
    let refused = scene.event("default", &name, "FailedDraining").await?;
    ensure!(refused.contains("PDB"), "{refused}");
    scene.is_gone(&name, &instance).await?;
    let forced = scene.event(&scene.namespace, "db", "Disrupted").await?;
    ensure!(forced.contains("bypasses the PDB"), "{forced}");
    scene.end()
}

async fn a_do_not_disrupt_pod_holds_its_node_until_the_annotation_goes(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "protected").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    scene.pod("job", &name, protected).await?;
    scene.delete_claim(&name).await?;
    scene.waits_for(&name, "do-not-disrupt").await?;
    scene
        .stays(|| async { Ok(scene.pods().get("job").await?.metadata.deletion_timestamp.is_none()) })
        .await?;
    ensure!(scene.instance_lives(&instance)?, "the instance went under a protected pod");
    let bare = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}}));
    scene.pods().patch("job", &PatchParams::default(), &bare).await?;
    scene.is_gone(&name, &instance).await?;
    scene.end()
}

async fn an_attached_volume_holds_the_instance_until_it_is_detached(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "volume").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.node_is_ready(&name, true).await?;
    let volume = format!("pv-{name}");
    scene
        .create(json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                     "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123"}},
        }))
        .await?;
    // The attach/detach controller of the cluster has no driver to ask, so a finalizer plays the driver that takes its time.
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": format!("va-{name}"), "finalizers": ["test/attached"]},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": name, "source": {"persistentVolumeName": volume}},
    });
    scene.create(attachment.clone()).await?;
    scene.delete_claim(&name).await?;
    let wait = scene.waits_for(&name, "volume").await?;
    ensure!(wait["detail"].as_str().is_some_and(|text| text.contains("vol-0123 still attached")), "{wait}");
    let named = scene.event("default", &name, "AwaitingVolumeDetachment").await?;
    ensure!(named.contains(&format!("va-{name}")), "{named}");
    scene.stays(|| async { scene.instance_lives(&instance) }).await?;
    let api = integration::kubernetes::api_of(&scene.client, &attachment).await?;
    let attached = format!("va-{name}");
    let detached = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(&attached, &PatchParams::default(), &detached).await?;
    if api.get_opt(&attached).await?.is_some() {
        api.delete(&attached, &DeleteParams::default()).await?;
    }
    scene.is_gone(&name, &instance).await?;
    scene.end()
}

async fn a_dead_node_goes_at_once_although_a_pod_is_on_it(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "dead").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    scene.pod("job", &name, protected).await?;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let down = Patch::Merge(json!({"metadata": {"annotations": {"localstack/not-ready": "Unknown"}}}));
    nodes.patch(&name, &PatchParams::default(), &down).await?;
    scene.node_is_ready(&name, false).await?;
    aws::put(&scene.stack, "/instance", &json!({"id": instance, "state": "terminated"}))?;
    // Whether by us or by the collector: the claim is deleted now.
    scene.claims().await?.delete(&name, &DeleteParams::default()).await.map(drop).or_else(ignore_missing)?;
    scene.is_gone(&name, &instance).await?;
    scene.end()
}

fn ignore_missing(error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error.into()),
    }
}

async fn a_claim_whose_instance_was_ended_behind_our_back_is_collected(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "lost").await?;
    let (lost, alive) = (scene.name(1), scene.name(2));
    let lost_instance = scene.node(&lost, &Options::default()).await?;
    let alive_instance = scene.node(&alive, &Options::default()).await?;
    scene.node_is_ready(&lost, true).await?;
    scene.node_is_ready(&alive, true).await?;
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let down = Patch::Merge(json!({"metadata": {"annotations": {"localstack/not-ready": "Unknown"}}}));
    nodes.patch(&lost, &PatchParams::default(), &down).await?;
    scene.node_is_ready(&lost, false).await?;
    for instance in [&lost_instance, &alive_instance] {
        aws::put(&scene.stack, "/instance", &json!({"id": instance, "state": "terminated"}))?;
    }
    scene.is_gone(&lost, &lost_instance).await?;
    ensure!(
        scene.service.metric("karpenter_nodeclaims_disrupted_total", "reason=\"garbage_collected\"")? >= 1.0,
        "not counted"
    );
    let kept = scene.claims().await?.get(&alive).await?;
    ensure!(kept.metadata.deletion_timestamp.is_none(), "a ready node shows that its kubelet lives");
    scene.delete_claim(&alive).await?;
    scene.is_gone(&alive, &alive_instance).await?;
    scene.end()
}

async fn a_claim_deleted_before_its_launch_goes_and_leaves_no_instance(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "unlaunched").await?;
    let (never, unnoted) = (scene.name(1), scene.name(2));
    let options = Options { unlaunched: true, ..Options::default() };
    scene.claim(&never, "", &options).await?;
    // Launched, but the one who launched it died before it could write the id down.
    let instance = scene.node(&unnoted, &options).await?;
    for name in [&never, &unnoted] {
        scene.delete_claim(name).await?;
    }
    scene.is_gone(&never, "i-none").await?;
    scene.is_gone(&unnoted, &instance).await?;
    scene.end()
}

async fn an_instance_that_is_not_provably_ours_is_never_ended(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "foreign").await?;
    let (foreign, elsewhere) = (scene.name(1), scene.name(2));
    let instance = scene.node(&foreign, &Options { untagged: true, ..Options::default() }).await?;
    let wrong = Options { provider_id: Some("aws:///eu-central-1a/i-0123".to_owned()), ..Options::default() };
    scene.node(&elsewhere, &wrong).await?;
    for name in [&foreign, &elsewhere] {
        scene.node_is_ready(name, true).await?;
        scene.delete_claim(name).await?;
        scene.event("default", name, "InstanceNotOurs").await?;
    }
    scene.stays(|| async { scene.instance_lives(&instance) }).await?;
    let claims = scene.claims().await?;
    for name in [&foreign, &elsewhere] {
        let claim = claims.get(name).await?;
        let held = claim.metadata.finalizers.unwrap_or_default();
        ensure!(held.iter().any(|finalizer| finalizer == FINALIZER), "{name} was released");
    }
    // What the event advises: give it the tags, and it goes.
    let tags = json!({"karpenter.sh/nodepool": "removal", "karpenter.k8s.aws/ec2nodeclass": "removal",
                      "eks:eks-cluster-name": scene.stack.var("CLUSTER_NAME")?});
    aws::put(&scene.stack, "/instance", &json!({"id": instance, "tags": tags}))?;
    scene.is_gone(&foreign, &instance).await?;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch(&elsewhere, &PatchParams::default(), &free).await?;
    // Without its claim the node is nobody's and goes by itself; either way it must not stay for the next test.
    let nodes = Api::<Node>::all(scene.client.clone());
    nodes.patch(&elsewhere, &PatchParams::default(), &free).await.map(drop).or_else(ignore_missing)?;
    scene.end()
}

async fn an_instance_without_claim_is_collected_and_a_foreign_one_is_not(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "orphan").await?;
    let orphan = scene.launch("nobody", true)?;
    let foreign = scene.launch("nobody", false)?;
    let wanted = scene.node(&scene.name(1), &Options::default()).await?;
    eventually("the orphan to be ended", || async { Ok((!scene.instance_lives(&orphan)?).then_some(())) })
        .await?;
    ensure!(scene.instance_lives(&foreign)?, "a foreign instance was ended");
    ensure!(scene.instance_lives(&wanted)?, "a wanted instance was ended");
    scene.delete_claim(&scene.name(1)).await?;
    scene.is_gone(&scene.name(1), &wanted).await?;
    scene.end()
}

async fn a_claim_that_shares_its_instance_leaves_it_to_the_other(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "shared").await?;
    let (own, copy) = (scene.name(1), scene.name(2));
    let instance = scene.node(&own, &Options::default()).await?;
    scene.claim(&copy, &format!("aws:///{}/{instance}", scene.zone), &Options::default()).await?;
    scene.delete_claim(&copy).await?;
    scene.event("default", &copy, "DuplicateProviderID").await?;
    scene.stays(|| async { scene.instance_lives(&instance) }).await?;
    ensure!(scene.node_names().await?.contains(&own), "the node went");
    scene.delete_claim(&own).await?;
    scene.is_gone(&own, &instance).await?;
    scene.end()
}

async fn terminate_stores_deletion_and_deadline_and_refuses_namesakes(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "rpc").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("db", &name, json!({})).await?;
    let namesake = json!({"nodeClaim": {"name": name, "uid": "someone-else"}, "reason": "test"});
    let refused = scene.call("Terminate", &namesake).expect_err("a namesake");
    ensure!(format!("{refused:#}").contains("FailedPrecondition"), "{refused:#}");
    let missing =
        scene.call("Terminate", &json!({"nodeClaim": {"name": "no-such"}})).expect_err("no such claim");
    ensure!(format!("{missing:#}").contains("NotFound"), "{missing:#}");

    let far = json!({"nodeClaim": {"name": name}, "reason": "spot_interrupted", "deadline": "2099-01-01T00:00:00Z"});
    let first = scene.call("Terminate", &far)?;
    ensure!(first["alreadyDeleting"] != true && first["deadline"] == "2099-01-01T00:00:00Z", "{first}");
    scene.waits_for(&name, "pdb").await?;
    let drain = scene.drains()?.into_iter().find(|drain| drain["node"] == *name).context("its drain")?;
    ensure!(drain["reason"] == "spot_interrupted", "{drain}");
    // A later deadline changes nothing, an earlier one counts.
    let later = json!({"nodeClaim": {"name": name}, "deadline": "2100-01-01T00:00:00Z"});
    let second = scene.call("Terminate", &later)?;
    ensure!(second["alreadyDeleting"] == true && second["deadline"] == "2099-01-01T00:00:00Z", "{second}");
    let past = json!({"nodeClaim": {"name": name}, "deadline": "2026-01-01T00:00:00Z"});
    scene.call("Terminate", &past)?;
    scene.is_gone(&name, &instance).await?;
    scene.end()
}

async fn two_hundred_nodes_go_at_once(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "many").await?;
    let mut nodes = Vec::new();
    for number in 0..200 {
        nodes.push((scene.name(number), scene.node(&scene.name(number), &Options::default()).await?));
    }
    for (name, _) in &nodes {
        scene.delete_claim(name).await?;
    }
    for (name, instance) in &nodes {
        scene.is_gone(name, instance).await?;
    }
    scene.no_drain_is_left().await?;
    scene.end()
}

async fn a_service_killed_in_the_middle_of_drains_is_taken_over_from(stack: Stack) -> Result<()> {
    let mut scene = Scene::new(stack, "killed").await?;
    let mut nodes = Vec::new();
    for number in 0..10 {
        let name = scene.name(number);
        let instance = scene.node(&name, &Options::default()).await?;
        scene.pod(&format!("p{number}"), &name, json!({})).await?;
        nodes.push((name, instance));
    }
    for (name, _) in &nodes {
        scene.delete_claim(name).await?;
    }
    for pause in [100, 1500, 3000] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        scene.kill_and_restart()?;
    }
    for (name, instance) in &nodes {
        scene.is_gone(name, instance).await?;
    }
    scene.end()
}
