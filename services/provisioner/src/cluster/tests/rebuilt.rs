//! Whatever the order of events, the state is what the objects say: taking them in one by one comes to the same as listing
//! them, and carrying changes over to the solver's snapshot to the same as building it anew.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use model::pool::ClusterInput;
use proptest::prelude::*;

use super::volumes::{class, volume, volume_claim, with_claim};
use super::*;

#[derive(Clone, Debug)]
enum Event {
    Pod(u32, u8),
    Claim(u32, u8),
    Node(u32, u8),
    VolumeClaim(u32, u8),
    Volume(u32, u8),
    Class(u32, u8),
    Pool(u32, u8),
    Daemons(u32, u8),
    Budget(u32, u8),
}

/// The objects as they are in the API.
struct Objects {
    pods: BTreeMap<u32, Arc<Pod>>,
    claims: BTreeMap<u32, Arc<NodeClaim>>,
    nodes: BTreeMap<u32, Arc<Node>>,
    volume_claims: BTreeMap<u32, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<u32, Arc<PersistentVolume>>,
    classes: BTreeMap<u32, Arc<StorageClass>>,
    pools: BTreeMap<u32, Arc<NodePool>>,
    daemons: BTreeMap<u32, Arc<DaemonSet>>,
    budgets: BTreeMap<u32, Arc<PodDisruptionBudget>>,
}

impl Objects {
    /// Those of [`state`].
    fn new() -> Self {
        Self {
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            nodes: BTreeMap::new(),
            volume_claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            classes: BTreeMap::new(),
            pools: [(0, pool(None))].into(),
            daemons: BTreeMap::new(),
            budgets: BTreeMap::new(),
        }
    }
}

fn a_pod(number: u32, variant: u8) -> Option<Arc<Pod>> {
    let on = format!("ip-{}", number % 3);
    Some(match variant {
        0 => return None,
        1 => pod(number, json!({})),
        2 => bound(number, &on),
        3 => with_claim(number, &format!("data-{}", number % 3)),
        4 => {
            let mut running = (*with_claim(number, &format!("data-{}", number % 3))).clone();
            running.spec.get_or_insert_default().node_name = Some(on);
            Arc::new(running)
        }
        5 => pod(
            number,
            json!({"spec": {"nodeName": on, "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "many"}}}]}}),
        ),
        6 => pod(
            number,
            json!({"metadata": {"labels": {"app": "b"}}, "spec": {"nodeSelector": {labels::ZONE: "z2"}}}),
        ),
        _ => pod(number, json!({"status": {"phase": "Succeeded"}})),
    })
}

fn a_claim(number: u32, variant: u8) -> Option<Arc<NodeClaim>> {
    let name = format!("claim-{number}");
    Some(match variant {
        0 => return None,
        1 | 2 => claim(&name, &[number], json!({})),
        3 | 4 => launched(&name, &[number]),
        5 => disrupted(&name, 0),
        _ => initialized(&name, &[number], 0),
    })
}

/// The NodePool of the other tests, or a second one.
fn a_pool(number: u32, variant: u8) -> Option<Arc<NodePool>> {
    if variant == 0 {
        return None;
    }
    let mut own = serde_json::to_value(&*pool((variant == 2).then_some("8"))).unwrap();
    let name = if number.is_multiple_of(2) { "general" } else { "spare" };
    let ready = if variant == 3 { "False" } else { "True" };
    let consolidate_after = if variant == 4 { "Never" } else { "30s" };
    let taints = if variant == 5 { json!([{"key": "team", "effect": "NoSchedule"}]) } else { json!([]) };
    merge(
        &mut own,
        json!({
            "metadata": {"name": name, "generation": variant},
            "spec": {"weight": 1 + variant % 3, "disruption": {"consolidateAfter": consolidate_after},
                "template": {"spec": {"taints": taints}}},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
        }),
    );
    Some(Arc::new(serde_json::from_value(own).unwrap()))
}

fn a_daemon_set(number: u32, variant: u8) -> Option<Arc<DaemonSet>> {
    let cpu = match variant {
        0 | 1 => return None,
        2 => "many".to_owned(),
        more => format!("{}m", u32::from(more) * 100),
    };
    let set = json!({
        "metadata": {"namespace": "kube-system", "name": format!("agent-{}", number % 2)},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {
                "nodeSelector": if variant == 7 { json!({labels::ZONE: "z2"}) } else { json!({}) },
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}
    });
    Some(Arc::new(serde_json::from_value(set).unwrap()))
}

fn a_budget(number: u32, variant: u8) -> Option<Arc<PodDisruptionBudget>> {
    if variant < 2 {
        return None;
    }
    let budget = json!({
        "metadata": {"namespace": "default", "name": format!("budget-{}", number % 2)},
        "spec": {"maxUnavailable": variant % 2,
            "selector": {"matchLabels": {"app": if variant < 5 { "a" } else { "b" }}}}
    });
    Some(Arc::new(serde_json::from_value(budget).unwrap()))
}

/// Takes an event in, and keeps the objects in step.
fn take(event: &Event, objects: &mut Objects, state: &mut State) {
    let now = at(0);
    macro_rules! change {
        ($map:ident, $number:expr, $new:expr) => {
            match ($new, objects.$map.remove(&$number)) {
                (Some(new), _) => {
                    objects.$map.insert($number, Arc::clone(&new));
                    Some(Change::Applied(new))
                }
                (None, Some(old)) => Some(Change::Deleted(old)),
                (None, None) => None,
            }
        };
    }
    match *event {
        Event::Pod(number, variant) => match change!(pods, number, a_pod(number, variant)) {
            Some(Change::Applied(new)) => state.pod(Streamed::Applied(new), now),
            Some(Change::Deleted(old)) => state.pod(Streamed::Deleted(old), now),
            _ => {}
        },
        Event::Claim(number, variant) => {
            change!(claims, number, a_claim(number, variant)).into_iter().for_each(|c| state.claim(c, now));
        }
        Event::Node(number, variant) => {
            let new =
                (variant > 1).then(|| node(&format!("ip-{number}"), &format!("claim-{number}"), json!({})));
            change!(nodes, number, new).into_iter().for_each(|c| state.node(c, now));
        }
        Event::VolumeClaim(number, variant) => {
            let (class, volume) = (["gp3", "io2"][usize::from(variant % 2)], format!("pv-{}", variant % 3));
            let (class, volume) =
                (Some(class).filter(|_| variant != 4), Some(&*volume).filter(|_| variant > 4));
            let new = (variant > 0).then(|| volume_claim(&format!("data-{number}"), class, volume));
            change!(volume_claims, number, new).into_iter().for_each(|c| state.volume_claim(c, now));
        }
        Event::Volume(number, variant) => {
            let zone = ["z1", "z2"][usize::from(variant % 2)];
            let new = (variant > 1).then(|| volume(&format!("pv-{number}"), zone));
            change!(volumes, number, new).into_iter().for_each(|c| state.volume(c, now));
        }
        Event::Class(number, variant) => {
            let name = ["gp3", "io2"][usize::try_from(number % 2).unwrap()];
            let new = (variant > 1).then(|| class(name, variant % 2 == 0));
            change!(classes, number % 2, new).into_iter().for_each(|c| state.storage_class(c, now));
        }
        Event::Pool(number, variant) => {
            let new = a_pool(number, variant);
            change!(pools, number % 2, new).into_iter().for_each(|c| state.pool(c, now));
        }
        Event::Daemons(number, variant) => {
            let new = a_daemon_set(number, variant);
            change!(daemons, number % 2, new).into_iter().for_each(|c| state.daemon_set(c));
        }
        Event::Budget(number, variant) => {
            let new = a_budget(number, variant);
            change!(budgets, number % 2, new).into_iter().for_each(|c| state.budget(c, now));
        }
    }
}

/// The same objects, listed.
fn listed(objects: &Objects) -> State {
    let (mut state, now) = (state(), at(0));
    list_pods(&mut state, objects.pods.values().cloned().collect(), now);
    state.pool(Change::Reset(objects.pools.values().cloned().collect()), now);
    state.daemon_set(Change::Reset(objects.daemons.values().cloned().collect()));
    state.budget(Change::Reset(objects.budgets.values().cloned().collect()), now);
    state.node(Change::Reset(objects.nodes.values().cloned().collect()), now);
    state.claim(Change::Reset(objects.claims.values().cloned().collect()), now);
    state.storage_class(Change::Reset(objects.classes.values().cloned().collect()), now);
    state.volume(Change::Reset(objects.volumes.values().cloned().collect()), now);
    state.volume_claim(Change::Reset(objects.volume_claims.values().cloned().collect()), now);
    state
}

/// In an order of its own.
fn sorted(mut input: ClusterInput) -> ClusterInput {
    input.pods.sort_by_key(|pod| pod.key());
    input.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    input
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0_u8..13, 0_u32..9, 0_u8..8).prop_map(|(kind, number, variant)| match kind {
        0..=3 => Event::Pod(number, variant),
        4 | 5 => Event::Claim(number % 3, variant),
        6 => Event::Node(number % 3, variant),
        7 => Event::VolumeClaim(number % 3, variant),
        8 => Event::Volume(number % 3, variant),
        9 => Event::Class(number % 2, variant),
        10 => Event::Pool(number % 2, variant),
        11 => Event::Daemons(number % 2, variant),
        _ => Event::Budget(number % 2, variant),
    });
    prop::collection::vec(event, 1..60)
}

#[test]
fn a_claim_under_the_name_of_one_that_is_gone_takes_no_node_away() {
    let (mut state, mut objects) = (state(), Objects::new());
    for event in [Event::Claim(1, 3), Event::Node(1, 2), Event::Claim(1, 0), Event::Claim(1, 1)] {
        take(&event, &mut objects, &mut state);
    }
    assert_eq!(state.input().nodes.len(), 2);
    assert_eq!(sorted(state.input()), sorted(listed(&objects).input()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    // Cases: CST-19, CST-22, CST-23, SCH-H.3-4, SCH-H.3-5, SCH-H.3-9
    #[test]
    fn events_one_by_one_come_to_the_same_as_a_list(events in events()) {
        let (mut state, mut objects) = (state(), Objects::new());
        let mut snapshot = Snapshot::build(state.input());
        state.delta = Default::default();
        for event in &events {
            take(event, &mut objects, &mut state);
            let delta = std::mem::take(&mut state.delta);
            let carried = if delta.rebuild { None } else { snapshot.apply(&delta.changes).ok() };
            snapshot = carried.unwrap_or_else(|| Snapshot::build(state.input()));
        }
        let fresh = listed(&objects);
        prop_assert_eq!(sorted(state.input()), sorted(fresh.input()));
        let solve = |snapshot: &Snapshot| solver::solve(snapshot, &Options::default(), &|| true);
        let (one, other) = (solve(&snapshot), solve(&Snapshot::build(state.input())));
        prop_assert_eq!((one.cost, one.unschedulable.len()), (other.cost, other.unschedulable.len()));
    }
}
