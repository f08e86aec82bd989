//! What changes beside prices: overlays, memory that nodes report, zonal shifts, capacity that was paid for.

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, aws, eventually, test};
use kube::api::Api;
use proto::pricingcache::v1::{CapacityReservation, CatalogDelta, LearnedMemory};
use serde_json::json;

use crate::pricing_scene::{
    NAME, Reader, apply, delete, delta_with, first, forget_everything, stored, watch,
};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("pricing_facts", alone, overlays_are_judged_reported_on_and_streamed),
        test!("pricing_facts", alone, memory_of_a_registered_node_is_learned_and_remembered),
        test!("pricing_facts", alone, a_zone_that_is_shifted_away_from_offers_nothing_until_the_shift_ends),
        test!(
            "pricing_facts",
            alone,
            reservations_are_streamed_with_what_is_left_and_blocks_expire_by_themselves
        ),
    ]
}

const OVERLAYS: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: overlaid}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: overlaid}
      requirements: []
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-a}
spec:
  requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}]
  price: "0.01"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-b}
spec:
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}]
  priceAdjustment: "-10%"
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay-c}
spec:
  weight: 10
  requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [c5]}]
  capacity: {example.com/dongle: 2}
"#;

// Cases: SCH-O-11, SCH-O-12
async fn overlays_are_judged_reported_on_and_streamed(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--feature-gates=NodeOverlay=true"])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    let (_, snapshot) = first(&mut stream).await?;
    ensure!(snapshot.overlays.is_empty(), "{:?}", snapshot.overlays);
    apply(&stack, OVERLAYS).await?;
    let names =
        |delta: &CatalogDelta| -> Vec<String> { delta.overlays.iter().map(|o| o.name.clone()).collect() };
    let judged = delta_with(&mut stream, |delta| names(delta) == ["overlay-c", "overlay-b"]).await?;
    ensure!(judged.overlays_changed && judged.overlays[1].price_adjustment == "-10%", "{judged:?}");

    let client = stack.admin().await?;
    let overlays: Api<api::NodeOverlay> = Api::all(client);
    for (name, status, reason) in [
        ("overlay-a", "False", "Conflict"),
        ("overlay-b", "True", "ValidationSucceeded"),
        ("overlay-c", "True", "ValidationSucceeded"),
    ] {
        eventually(&format!("{name} to be reported on as {reason}"), || async {
            let conditions = overlays.get(name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
            let found = |kind: &str| conditions.iter().find(|c| c.type_ == kind);
            let said = found("ValidationSucceeded")
                .is_some_and(|c| c.status.as_str() == status && c.reason == reason);
            let ready = found("Ready").is_some_and(|c| c.status.as_str() == status);
            Ok((said && ready).then_some(()))
        })
        .await?;
    }
    delete(&stack, OVERLAYS).await?;
    delta_with(&mut stream, |delta| delta.overlays_changed && delta.overlays.is_empty()).await?;
    service.stop(&stack)
}

const LEARNING: &str = r#"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: learned}
spec:
  role: KarpenterNodeRole-local
  amiFamily: AL2023
  amiSelectorTerms: [{id: ami-0123456789abcdef0}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
status:
  amis:
  - id: ami-0123456789abcdef0
    requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: learned}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: learned}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
status: {nodeName: learned, imageID: ami-0123456789abcdef0, providerID: "aws:///us-west-2a/i-0123456789abcdef0"}
---
apiVersion: v1
kind: Node
metadata:
  name: learned
  labels: {karpenter.sh/registered: "true", node.kubernetes.io/instance-type: m5.large, kubernetes.io/arch: amd64}
status:
  capacity: {cpu: "2", memory: 7900Mi, pods: "29"}
"#;

/// What the node of [`LEARNING`] reports.
const FIGURE: (&str, u64) = ("m5.large", 7900 << 20);

async fn memory_of_a_registered_node_is_learned_and_remembered(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let service = Service::start(&stack, NAME, 1, &[])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    first(&mut stream).await?;
    apply(&stack, LEARNING).await?;
    let is_it = |m: &LearnedMemory| (m.instance_type.as_str(), m.bytes) == FIGURE;
    let delta = delta_with(&mut stream, |delta| delta.learned_memory.iter().any(is_it)).await?;
    delete(&stack, LEARNING).await?;
    eventually("the figure to be stored", || stored(&stack, "karpenter-memory-capacity")).await?;
    service.kill(&stack)?;
    let again = Service::start(&stack, NAME, 1, &[])?;
    let remembered = Reader::new(&stack).await?.snapshot().await?.learned_memory;
    again.stop(&stack)?;
    // A node that another test left behind would be learned from, too.
    let learned = delta.learned_memory.iter().find(|m| is_it(m)).context("the figure")?;
    ensure!(remembered.contains(learned), "{remembered:?}");
    forget_everything(&stack).await
}

async fn a_zone_that_is_shifted_away_from_offers_nothing_until_the_shift_ends(stack: Stack) -> Result<()> {
    forget_everything(&stack).await?;
    let shifts = ["--arg=--enable-zonal-shift", "--arg=--zonal-shift-refresh-interval=1s"];
    let service = Service::start_with(&stack, NAME, 1, &shifts)?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    let (_, snapshot) = first(&mut stream).await?;
    let zone = snapshot.zones.first().context("a zone")?.clone();
    let shifted = |delta: &CatalogDelta, away: bool| {
        delta.zones_changed && delta.zones.iter().any(|z| z.id == zone.id && z.shifted == away)
    };
    aws::put(&stack, "/zonal-shift", &json!({"zoneId": zone.id, "minutes": 60}))?;
    delta_with(&mut stream, |delta| shifted(delta, true)).await?;
    let prices = reader.prices(&["m5.large"]).await?.prices;
    let offered = prices.iter().filter_map(|price| price.offering.as_ref());
    ensure!(offered.clone().all(|o| o.available != (o.zone == zone.name)), "{prices:?}");
    aws::delete(&stack, "/zonal-shift")?;
    delta_with(&mut stream, |delta| shifted(delta, false)).await?;

    // A shift that nobody cancels ends at its time, whether or not AWS answers then.
    aws::put(&stack, "/zonal-shift", &json!({"zoneId": zone.id, "minutes": 0.08}))?;
    delta_with(&mut stream, |delta| shifted(delta, true)).await?;
    aws::put(&stack, "/errors", &json!({"action": "GetManagedResource", "code": "InternalServerException"}))?;
    delta_with(&mut stream, |delta| shifted(delta, false)).await?;
    service.stop(&stack)?;
    forget_everything(&stack).await
}

async fn reservations_are_streamed_with_what_is_left_and_blocks_expire_by_themselves(
    stack: Stack,
) -> Result<()> {
    forget_everything(&stack).await?;
    let held = |more: serde_json::Value| -> Result<String> {
        let mut body =
            json!({"instanceType": "m5.large", "zone": "us-west-2a", "total": 2, "tags": {"team": "a"}});
        body.as_object_mut().context("an object")?.extend(more.as_object().cloned().unwrap_or_default());
        let made = aws::put(&stack, "/capacity-reservation", &body)?;
        Ok(made["id"].as_str().with_context(|| format!("no id in {made}"))?.to_owned())
    };
    let open = held(json!({"criteria": "open"}))?;
    // Blocks are given up forty minutes before their end.
    let block = held(json!({"kind": "capacity-block", "criteria": "targeted", "endsInSeconds": 2404}))?;
    let service = Service::start_with(&stack, NAME, 1, &["--arg=--reservations-refresh-interval=1s"])?;
    let reader = Reader::new(&stack).await?;
    let mut stream = watch(&mut reader.client()).await?;
    let (_, snapshot) = first(&mut stream).await?;
    let of = |list: &[CapacityReservation], id: &str| list.iter().find(|r| r.id == id).cloned();
    let first_seen = of(&snapshot.reservations, &open).context("the reservation")?;
    ensure!((first_seen.available, first_seen.state.as_str()) == (2, "active"), "{first_seen:?}");
    ensure!(first_seen.tags.get("team").is_some_and(|team| team == "a"), "{first_seen:?}");
    let is_expiring =
        |list: &[CapacityReservation]| of(list, &block).is_some_and(|held| held.state == "expiring");
    if !is_expiring(&snapshot.reservations) {
        delta_with(&mut stream, |delta| is_expiring(&delta.reservations)).await?;
    }
    aws::put(&stack, "/capacity-reservation", &json!({"id": open, "available": 0}))?;
    let used_up = |delta: &CatalogDelta| of(&delta.reservations, &open).is_some_and(|r| r.available == 0);
    delta_with(&mut stream, used_up).await?;
    let prices = reader.prices(&["m5.large"]).await?.prices;
    for id in [&open, &block] {
        aws::put(&stack, "/capacity-reservation", &json!({"id": id, "state": "cancelled"}))?;
    }
    let none = |delta: &CatalogDelta| delta.reservations_changed && delta.reservations.is_empty();
    delta_with(&mut stream, none).await?;
    service.stop(&stack)?;
    let paid = prices.iter().filter_map(|p| p.offering.as_ref()).find(|o| o.reservation_id == open);
    ensure!(paid.is_some_and(|o| !o.available && o.reservation_capacity == 0), "{paid:?}");
    Ok(())
}
