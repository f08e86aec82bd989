//! Leader election between replicas of one service.

use anyhow::{Context, Result, ensure};
use integration::{Service, Stack, Test, eventually, test};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("leases", alone, a_lease_moves_when_its_holder_is_killed),
        test!("leases", alone, a_clean_stop_hands_the_lease_over),
        test!("leases", alone, nobody_leads_while_karpenter_does),
    ]
}

async fn holder(stack: &Stack) -> Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(stack.admin().await?, "kube-system");
    let lease = leases.get_opt("karpenter-disruption").await?;
    Ok(lease
        .and_then(|lease| lease.spec)
        .and_then(|spec| spec.holder_identity)
        .filter(|name| !name.is_empty()))
}

/// Two replicas; returns (the one that leads, the other).
async fn two_replicas(stack: &Stack) -> Result<(Service, Service)> {
    let one = Service::start(stack, "disruption", 1, &[])?;
    let two = Service::start(stack, "disruption", 2, &[])?;
    let led_by = eventually("one of two replicas to lead", || async {
        Ok(holder(stack).await?.filter(|name| [one.identity(), two.identity()].contains(name)))
    })
    .await?;
    Ok(if led_by == one.identity() { (one, two) } else { (two, one) })
}

async fn moves_to(stack: &Stack, next: &Service) -> Result<()> {
    eventually("the other replica to lead", || async {
        Ok(holder(stack).await?.filter(|name| *name == next.identity()).map(drop))
    })
    .await?;
    let leads = eventually("the replica to know that it leads", || async {
        Ok((next.metric("leader_election_master_status", "")? > 0.0).then_some(()))
    })
    .await;
    leads.context("leader_election_master_status")
}

async fn a_lease_moves_when_its_holder_is_killed(stack: Stack) -> Result<()> {
    let (leader, follower) = two_replicas(&stack).await?;
    ensure!(follower.metric("leader_election_master_status", "")? == 0.0, "two leaders");
    leader.kill(&stack)?;
    let moved = moves_to(&stack, &follower).await;
    follower.stop(&stack)?;
    moved
}

async fn a_clean_stop_hands_the_lease_over(stack: Stack) -> Result<()> {
    let (leader, follower) = two_replicas(&stack).await?;
    leader.stop(&stack)?;
    let moved = moves_to(&stack, &follower).await;
    follower.stop(&stack)?;
    moved?;
    ensure!(holder(&stack).await?.is_none(), "the last replica kept the lease after a clean stop");
    Ok(())
}

/// Somebody scales the old controller up again beside ours.
async fn nobody_leads_while_karpenter_does(stack: Stack) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(stack.admin().await?, "kube-system");
    let name = "karpenter-leader-election";
    let service = Service::start(&stack, "disruption", 1, &[])?;
    let leads = || async { Ok((service.metric("leader_election_master_status", "")? > 0.0).then_some(())) };
    eventually("the only replica to lead", leads).await?;

    let renewed = format!("{:.6}", jiff::Timestamp::now());
    let lease = json!({
        "metadata": {"name": name},
        "spec": {"holderIdentity": "karpenter-1_x", "leaseDurationSeconds": 60, "renewTime": renewed},
    });
    leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
    let followed = eventually("the replica to follow and to say why", || async {
        let follows = service.metric("leader_election_master_status", "")? == 0.0;
        let says = service.admin_get("/readyz")?.contains("Karpenter itself leads here");
        Ok((follows && says).then_some(()))
    })
    .await;
    leases.delete(name, &DeleteParams::default()).await?;
    followed?;
    eventually("the replica to lead again", leads).await?;
    service.stop(&stack)
}
