//! Draining a node: in groups, within budgets, until the deadline, with its volumes; and then its instance.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

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
        test!("termination", a_claim_goes_with_its_node_pods_and_instance),
        test!("termination", a_deleted_node_takes_its_claim_and_instance_along),
        test!("termination", termination_may_read_a_node_whose_taint_met_a_conflict),
        test!("termination", three_nodes_drained_at_once_leave_two_of_three_replicas_ready),
        test!("termination", budgets_and_annotations_hold_until_the_grace_period_ends)
            .expecting(&["without eviction"]),
        test!("termination", a_do_not_disrupt_pod_holds_its_node_until_the_annotation_goes),
        test!("termination", a_pod_of_two_budgets_is_named_with_both_and_goes_when_one_is_left),
        test!("termination", an_attached_volume_holds_the_instance_until_it_is_detached),
        test!("termination", a_dead_node_goes_at_once_although_a_pod_is_on_it),
    ]
}

// Cases: DEL-13, TRM-1, TRM-7, TRM-11, TRM-16, TRM-30, EVQ-3, FIN-5, FIN-7
async fn a_claim_goes_with_its_node_pods_and_instance(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "remove").await?;
    let name = scene.name(1);
    // Somebody else's finalizer keeps the claim after we are done with it, so that all that was noted on it can be read.
    let claim = json!({"metadata": {"finalizers": [FINALIZER, "test.example.com/reader"]}});
    let instance = scene.node(&name, &Options { claim, ..Options::default() }).await?;
    scene.node_is_ready(&name, true).await?;
    scene.pod("web", &name, json!({})).await?;
    let nodes = scene.nodes();
    let owner = nodes.get(&name).await?.uid();
    let mirror = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner}]}});
    scene.pod("static", &name, mirror).await?;
    scene.delete_claim(&name).await?;

    eventually("taint and label", || async {
        let node = nodes.get(&name).await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let labels = node.metadata.labels.unwrap_or_default();
        let excluded = labels.get("node.kubernetes.io/exclude-from-external-load-balancers");
        let tainted = taints.iter().any(|t| t.key == "karpenter.sh/disrupted" && t.effect == "NoSchedule");
        Ok((tainted && excluded.is_some_and(|value| value == "karpenter")).then_some(()))
    })
    .await?;
    let claims = scene.claims();
    eventually("our finalizer to go", || async {
        let held = claims.get(&name).await?.metadata.finalizers.unwrap_or_default();
        Ok((!held.iter().any(|finalizer| finalizer == FINALIZER)).then_some(()))
    })
    .await?;
    for kind in ["Drained", "VolumesDetached", "InstanceTerminating", "Ready"] {
        let found = scene.condition(&name, kind).await?;
        ensure!(found.as_ref().is_some_and(|(status, _)| status == "True"), "{kind}: {found:?}");
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch(&name, &PatchParams::default(), &free).await?;
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
        let own = format!("nodepool=\"{}\"", scene.namespace);
        ensure!(scene.service.metric(counter, &own)? == 1.0, "{counter}");
    }
    scene.no_drain_is_left().await?;
    Ok(())
}

// Cases: TRM-5
async fn a_deleted_node_takes_its_claim_and_instance_along(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "by-node").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.node_is_ready(&name, true).await?;
    scene.nodes().delete(&name, &DeleteParams::default()).await?;
    scene.is_gone(&name, &instance).await?;
    Ok(())
}

/// Kubelets and controllers write nodes all the time. A taint that meets a conflict is written again after a read of the node; without the right to it, only after the next event.
async fn termination_may_read_a_node_whose_taint_met_a_conflict(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "conflict").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    let nodes: Api<Node> = Api::all(scene.stack.client_of("termination").await?);
    nodes.get(&name).await.context("termination may not get nodes")?;
    scene.delete_claim(&name).await?;
    scene.is_gone(&name, &instance).await
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
    Ok(())
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

// Cases: EVQ-12, EVQ-14, EVQ-15
async fn budgets_and_annotations_hold_until_the_grace_period_ends(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "deadline").await?;
    let name = scene.name(1);
    let options = Options { grace_period: Some("25s"), ..Options::default() };
    let instance = scene.node(&name, &options).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("db", &name, json!({"spec": {"terminationGracePeriodSeconds": 5}})).await?;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    scene.pod("job", &name, protected).await?;
    scene.delete_claim(&name).await?;
    let wait = scene.waits_for(&name, "pdb").await?;
    let detail = wait["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains(&format!("PDB {}/db allows 0 disruptions", scene.namespace)), "{detail}");
    ensure!(wait["forcedAt"].is_string(), "{wait}");
    scene.waits_for(&name, "do-not-disrupt").await?;
    for pod in ["db", "job"] {
        let pod = scene.pods().get(pod).await?;
        ensure!(pod.metadata.deletion_timestamp.is_none(), "{} went before its time", pod.name_any());
    }
    let refused = scene.event("default", &name, "FailedDraining").await?;
    ensure!(refused.contains("Failed to drain node"), "{refused}");
    let expiring = scene.event("default", &name, "TerminationGracePeriodExpiring").await?;
    ensure!(expiring.contains("All pods will be deleted by"), "{expiring}");
    scene.is_gone(&name, &instance).await?;
    for pod in ["db", "job"] {
        let forced = scene.event(&scene.namespace, pod, "Disrupted").await?;
        ensure!(forced.contains("bypasses the PDB"), "{forced}");
    }
    Ok(())
}

/// Critical pods leave after the ordinary ones, so they wait for it too.
// Cases: TRM-15
async fn a_do_not_disrupt_pod_holds_its_node_until_the_annotation_goes(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "protected").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    scene.pod("job", &name, protected).await?;
    scene.pod("dns", &name, json!({"spec": {"priorityClassName": "system-cluster-critical"}})).await?;
    scene.delete_claim(&name).await?;
    scene.waits_for(&name, "do-not-disrupt").await?;
    let turn = scene.waits_for(&name, "queue").await?;
    ensure!(turn["detail"].as_str().is_some_and(|text| text.contains("after the ordinary pods")), "{turn}");
    scene
        .stays(|| async {
            let all = scene.pods().list(&ListParams::default()).await?.items;
            let staying = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
            Ok(staying == 2)
        })
        .await?;
    ensure!(scene.instance_lives(&instance)?, "the instance went under a protected pod");
    let bare = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}}));
    scene.pods().patch("job", &PatchParams::default(), &bare).await?;
    scene.is_gone(&name, &instance).await
}

// Cases: EVQ-6
async fn a_pod_of_two_budgets_is_named_with_both_and_goes_when_one_is_left(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "budgets").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    for budget in ["one", "two"] {
        let selector = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}});
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                            "metadata": {"name": budget}, "spec": selector});
        scene.create(budget).await?;
    }
    scene.pod("db", &name, json!({})).await?;
    scene.delete_claim(&name).await?;
    let both = format!("{0}/one, {0}/two", scene.namespace);
    let wait = scene.waits_for(&name, "pdb").await?;
    ensure!(wait["detail"].as_str().is_some_and(|text| text.contains(&both)), "{wait}");
    eventually("an event that names pod and budgets", || async {
        let told = scene.messages("default", &name, "FailedDraining").await?;
        let named = |text: &String| text.contains(&format!("{}/db", scene.namespace)) && text.contains(&both);
        Ok(told.iter().any(named).then_some(()))
    })
    .await?;
    eventually("the refusal of the eviction API to be counted", || async {
        let refused = scene.service.metric("karpenter_pods_eviction_requests_total", "code=\"500\"")?;
        Ok((refused >= 1.0).then_some(()))
    })
    .await?;
    let pdbs: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(scene.client.clone(), &scene.namespace);
    pdbs.delete("two", &DeleteParams::default()).await?;
    // A pod without controller counts as disruptable only where the budget is of healthy pods.
    let enough = Patch::Merge(json!({"spec": {"maxUnavailable": null, "minAvailable": 0}}));
    pdbs.patch("one", &PatchParams::default(), &enough).await?;
    scene.is_gone(&name, &instance).await
}

// Cases: TRM-26
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
    Ok(())
}

// Cases: TRM-18
async fn a_dead_node_goes_at_once_although_a_pod_is_on_it(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "dead").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    scene.pod("job", &name, protected).await?;
    scene.silence(&name).await?;
    aws::put(&scene.stack, "/instance", &json!({"id": instance, "state": "terminated"}))?;
    // Whether by us or by the collector: the claim is deleted now.
    scene.claims().delete(&name, &DeleteParams::default()).await.map(drop).or_else(ignore_missing)?;
    scene.is_gone(&name, &instance).await
}

pub(crate) fn ignore_missing(error: kube::Error) -> Result<()> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error.into()),
    }
}
