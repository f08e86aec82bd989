//! Garbage collection both ways: claims without instance, instances without claim, nodes without either.

use anyhow::{Result, ensure};
use integration::{Service, Stack, Test, aws, eventually, test};
use proto::pricingcache::v1::ListUnavailableRequest;
use serde_json::json;

use crate::pricing_scene::{Reader, forget_everything};
use crate::removal_scene::{Options, Scene};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("termination_garbage", a_claim_whose_instance_was_ended_behind_our_back_is_collected),
        test!("termination_garbage", a_claim_deleted_before_its_launch_goes_and_leaves_no_instance),
        test!("termination_garbage", an_instance_without_claim_is_collected_and_a_foreign_one_is_not),
        test!("termination_garbage", a_silent_node_that_has_neither_claim_nor_instance_is_collected),
        test!(
            "termination_garbage",
            alone,
            in_a_zone_shifted_away_from_nothing_is_ended_until_the_shift_is_over
        ),
    ]
}

// Cases: GC-1, GC-2
async fn a_claim_whose_instance_was_ended_behind_our_back_is_collected(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "lost").await?;
    let (lost, alive) = (scene.name(1), scene.name(2));
    let lost_instance = scene.node(&lost, &Options::default()).await?;
    let alive_instance = scene.node(&alive, &Options::default()).await?;
    scene.node_is_ready(&lost, true).await?;
    scene.node_is_ready(&alive, true).await?;
    scene.silence(&lost).await?;
    for instance in [&lost_instance, &alive_instance] {
        aws::put(&scene.stack, "/instance", &json!({"id": instance, "state": "terminated"}))?;
    }
    scene.is_gone(&lost, &lost_instance).await?;
    let own = format!("reason=\"garbage_collected\",nodepool=\"{}\"", scene.namespace);
    ensure!(scene.service.metric("karpenter_nodeclaims_disrupted_total", &own)? == 1.0, "not counted");
    let kept = scene.claims().get(&alive).await?;
    ensure!(kept.metadata.deletion_timestamp.is_none(), "a ready node shows that its kubelet lives");
    scene.delete_claim(&alive).await?;
    scene.is_gone(&alive, &alive_instance).await?;
    Ok(())
}

// Cases: FIN-13
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
    Ok(())
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
    Ok(())
}

/// Left over by a claim that went before its node registered: without a cloud controller nobody else would take it away.
async fn a_silent_node_that_has_neither_claim_nor_instance_is_collected(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "abandoned").await?;
    let (silent, alive, elsewhere) = (scene.name(1), scene.name(2), scene.name(3));
    let none = |zone: &str, id: &str| format!("aws:///{zone}/{id}");
    scene.node_object(&silent, &none(&scene.zone, "i-0000000000000dead"), &Options::default()).await?;
    scene.node_object(&alive, &none(&scene.zone, "i-0000000000000beef"), &Options::default()).await?;
    scene.node_object(&elsewhere, &none("eu-central-1a", "i-0000000000000dead"), &Options::default()).await?;
    scene.node_is_ready(&alive, true).await?;
    scene.silence(&silent).await?;
    scene.silence(&elsewhere).await?;
    eventually("the silent node to be gone", || async {
        Ok((!scene.node_names().await?.contains(&silent)).then_some(()))
    })
    .await?;
    let left = scene.node_names().await?;
    ensure!(left.contains(&alive), "a ready node has a kubelet, whatever else is missing");
    ensure!(left.contains(&elsewhere), "EC2 here knows nothing of instances elsewhere");
    for name in [alive, elsewhere] {
        scene.nodes().delete(&name, &Default::default()).await?;
    }
    eventually("the others to go when they are deleted", || async {
        Ok(scene.node_names().await?.is_empty().then_some(()))
    })
    .await
}

async fn in_a_zone_shifted_away_from_nothing_is_ended_until_the_shift_is_over(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let often = ["--enable-zonal-shift", "--zonal-shift-refresh-interval=1s"];
    let pricing = Service::start(&stack, "pricing-cache", 1, &often)?;
    let scene = Scene::alone(stack, "shifted").await?;
    let (held, reader) = (scene.name(1), Reader::new(&scene.stack).await?);
    let instance = scene.node(&held, &Options::default()).await?;
    scene.node_is_ready(&held, true).await?;
    aws::put(&scene.stack, "/zonal-shift", &json!({"zoneId": scene.zone_id, "minutes": 60}))?;
    eventually("the shift to be known", || async {
        let told = reader.client().list_unavailable(ListUnavailableRequest {}).await?.into_inner();
        Ok(told.shifted_zones.contains(&scene.zone).then_some(()))
    })
    .await?;
    // A process that starts asks at once.
    let scene = scene.again_with(&["--enable-zonal-shift"])?;
    scene.delete_claim(&held).await?;
    eventually("the drain to say why it waits", || async {
        let wait = scene.waits_for(&held, "instance").await?;
        Ok(wait["detail"].as_str().is_some_and(|why| why.contains("zonal shift")).then_some(()))
    })
    .await?;
    ensure!(scene.instance_lives(&instance)?, "ended in a zone that is not to be believed");
    ensure!(scene.service.metric("karpenter_cloudprovider_instance_termination_failures_total", "")? > 0.0);
    aws::delete(&scene.stack, "/zonal-shift")?;
    scene.is_gone(&held, &instance).await?;
    pricing.stop(&scene.stack)?;
    let stack = scene.stack.clone();
    scene.end()?;
    forget_everything(&stack).await
}
