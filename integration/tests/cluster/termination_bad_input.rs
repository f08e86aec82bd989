//! What nobody should have written, and what is not provably ours: told in an event, handled safely, never a crash.

use anyhow::{Result, ensure};
use integration::{Stack, Test, aws, eventually, test};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::removal_scene::{FINALIZER, Options, Scene};
use crate::termination::ignore_missing;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("termination_bad_input", an_instance_that_is_not_provably_ours_is_never_ended),
        test!("termination_bad_input", an_instance_without_the_cluster_name_is_ended_by_its_claims_proof),
        test!("termination_bad_input", a_claim_that_shares_its_instance_leaves_it_to_the_other),
        test!("termination_bad_input", a_finalizer_of_others_is_named_and_waited_for),
        test!("termination_bad_input", a_node_without_provider_id_is_drained_and_released_with_a_warning),
        test!("termination_bad_input", a_deadline_nobody_can_read_is_told_and_one_in_the_past_counts)
            .expecting(&["without eviction"]),
    ]
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
    let claims = scene.claims();
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
    scene
        .nodes()
        .patch(&elsewhere, &PatchParams::default(), &free)
        .await
        .map(drop)
        .or_else(ignore_missing)?;
    Ok(())
}

/// Older releases did not write `eks:eks-cluster-name`, and people edit tags.
async fn an_instance_without_the_cluster_name_is_ended_by_its_claims_proof(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "older").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options { untagged: true, ..Options::default() }).await?;
    let owned = format!("kubernetes.io/cluster/{}", scene.stack.var("CLUSTER_NAME")?);
    let tags =
        json!({"karpenter.sh/nodepool": scene.namespace, "karpenter.sh/nodeclaim": name, owned: "owned"});
    aws::put(&scene.stack, "/instance", &json!({"id": instance, "tags": tags}))?;
    scene.node_is_ready(&name, true).await?;
    scene.delete_claim(&name).await?;
    scene.is_gone(&name, &instance).await
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
    Ok(())
}

async fn a_finalizer_of_others_is_named_and_waited_for(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "finalizers").await?;
    let name = scene.name(1);
    let node = json!({"metadata": {"finalizers": [FINALIZER, "example.com/backup"]}});
    let instance = scene.node(&name, &Options { node, ..Options::default() }).await?;
    scene.delete_claim(&name).await?;
    let wait = scene.waits_for(&name, "finalizer").await?;
    ensure!(wait["detail"].as_str().is_some_and(|text| text.contains("example.com/backup")), "{wait}");
    let told = scene.event("default", &name, "HeldByFinalizers").await?;
    ensure!(told.contains("example.com/backup"), "{told}");
    ensure!(!scene.instance_lives(&instance)?, "the instance need not wait for others");
    scene.stays(|| async { Ok(scene.claims().get(&name).await?.metadata.finalizers.is_some()) }).await?;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    scene.nodes().patch(&name, &PatchParams::default(), &free).await?;
    scene.is_gone(&name, &instance).await
}

/// Ready or not: EC2 cannot be asked about it, and must not be waited for.
// Cases: TRM-2
async fn a_node_without_provider_id_is_drained_and_released_with_a_warning(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "nameless").await?;
    let (ready, silent) = (scene.name(1), scene.name(2));
    for name in [&ready, &silent] {
        scene.node_object(name, "", &Options::default()).await?;
        scene.node_is_ready(name, true).await?;
    }
    scene.pod("web", &ready, json!({})).await?;
    scene.silence(&silent).await?;
    for name in [&ready, &silent] {
        scene.nodes().delete(name, &DeleteParams::default()).await?;
        let told = scene.event("default", name, "NodeClaimNotFound").await?;
        ensure!(told.contains("no provider id"), "{told}");
    }
    eventually("both nodes to be gone", || async { Ok(scene.node_names().await?.is_empty().then_some(())) })
        .await?;
    scene.event(&scene.namespace, "web", "Evicted").await.map(drop)
}

// Cases: EVQ-13
async fn a_deadline_nobody_can_read_is_told_and_one_in_the_past_counts(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "deadlines").await?;
    let (unreadable, past) = (scene.name(1), scene.name(2));
    let stamped = |text: &str| Options {
        claim: json!({"metadata": {"annotations": {"karpenter.sh/nodeclaim-termination-timestamp": text}}}),
        ..Options::default()
    };
    let first = scene.node(&unreadable, &stamped("tomorrow")).await?;
    let second = scene.node(&past, &stamped("2020-01-01T00:00:00Z")).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("web", &unreadable, json!({})).await?;
    scene.pod("db", &past, json!({"spec": {"terminationGracePeriodSeconds": 60}})).await?;
    for name in [&unreadable, &past] {
        scene.delete_claim(name).await?;
    }
    let told = scene.event("default", &unreadable, "TerminationTimestampUnreadable").await?;
    ensure!(told.contains("tomorrow"), "{told}");
    scene.is_gone(&unreadable, &first).await?;
    scene.event(&scene.namespace, "web", "Evicted").await?;
    let forced = scene.event(&scene.namespace, "db", "Disrupted").await?;
    ensure!(forced.contains("granted 1 seconds"), "never less than a second, and no more: {forced}");
    scene.is_gone(&past, &second).await
}
