//! Wires what stands between an EC2NodeClass or a NodeClaim and a Node: resolving classes, launching, following claims, keeping
//! pools up to date.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::EC2NodeClass;
use cloud::nodeclass::PlacementGroup;
use cloud::unavailable::Scope;
use futures::future::BoxFuture;
use runtime::{MinValuesPolicy, Shell};
use tokio_util::sync::CancellationToken;

use crate::catalog::{CatalogHandle, ClassFacts};
use crate::deps::Deps;
use crate::launch::{self, ClusterFacts, Launch, LaunchMetrics, Shortages, Templates};
use crate::nodeclass::{self, Addresses, ResolvedClasses};
use crate::{lifecycle, nodepool, reserved};

/// Mailboxes to be fed by watches.
pub(crate) struct Inboxes {
    pub(crate) classes: nodeclass::Inbox,
    pub(crate) claims: lifecycle::Inbox,
    pub(crate) pools: nodepool::Inbox,
}

pub(crate) async fn spawn(shell: &mut Shell, deps: &Deps) -> anyhow::Result<Inboxes> {
    let settings = &deps.settings;
    let cluster = Arc::new(ClusterFacts::find(settings, &deps.kube, &*deps.classes).await?);
    let templates = Arc::new(Templates::new(deps.launcher.clone(), &settings.cluster_name));
    let (addresses, resolved) = (Addresses::default(), ResolvedClasses::default());
    let types = deps.catalog.clone();
    let classes = nodeclass::spawn(
        shell,
        nodeclass::Parts {
            source: deps.classes.clone(),
            launcher: deps.launcher.clone(),
            cluster: cluster.clone(),
            templates: templates.clone(),
            addresses: addresses.clone(),
            resolved: resolved.clone(),
            types: Arc::new(move |class: &EC2NodeClass, group: Option<&PlacementGroup>| {
                types.usable_types(class, group)
            }),
            recorder: deps.recorder.clone(),
            leadership: deps.leadership.clone(),
            settings: settings.clone(),
        },
    );
    let found = tell_resolved(resolved.clone(), deps.catalog.clone(), shell.stop());
    shell.process.spawn("resolved-classes", found);

    let launch = Launch::new(launch::Parts {
        launcher: deps.launcher.clone(),
        records: Arc::new(lifecycle::Claims::new(deps.kube.clone())),
        cluster,
        shortages: Arc::new(deps.catalog.clone()),
        addresses,
        resolved,
        templates,
        metrics: LaunchMetrics::registered(&deps.metrics, deps.calls.clone()),
        reserved_capacity: settings.feature_gates.reserved_capacity,
        strict_min_values: settings.min_values_policy == MinValuesPolicy::Strict,
    });
    let stop = shell.stop();
    shell.process.spawn("launch", launch.clone().run(deps.leadership.clone(), stop));

    let (pools, health) = nodepool::spawn(shell, deps);
    if settings.enable_zonal_shift {
        nodepool::tell_shifts(shell, deps);
    }
    if settings.feature_gates.reserved_capacity {
        reserved::spawn(shell, deps);
    }
    let claims = lifecycle::spawn(shell, deps, launch, health);
    Ok(Inboxes { classes, claims, pools })
}

impl Shortages for CatalogHandle {
    fn report<'a>(&'a self, scopes: Vec<Scope>, reason: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.report_unavailable(scopes, reason))
    }
}

/// What a class offers depends on its placement group and on what is left of its reservations.
async fn tell_resolved(
    resolved: ResolvedClasses,
    catalog: CatalogHandle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut latest = resolved.subscribe();
    let mut told: BTreeMap<String, ClassFacts> = BTreeMap::new();
    loop {
        let now = latest.borrow_and_update().clone();
        for (class, found) in now.iter() {
            let facts =
                ClassFacts { group: found.placement_group.clone(), reservations: found.reservations.clone() };
            if told.get(class) != Some(&facts) {
                catalog.set_resolved(class, Some(facts.clone())).await;
                told.insert(class.clone(), facts);
            }
        }
        let gone: Vec<String> = told.keys().filter(|class| !now.contains_key(*class)).cloned().collect();
        for class in gone {
            told.remove(&class);
            catalog.set_resolved(&class, None).await;
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = latest.changed() => if changed.is_err() {
                stop.cancelled().await;
                return Ok(());
            },
        }
    }
}
