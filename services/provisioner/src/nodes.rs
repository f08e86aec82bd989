//! Wires what stands between an EC2NodeClass or a NodeClaim and a Node: resolving classes, launching, following claims, keeping
//! pools up to date.

use std::sync::Arc;

use api::{EC2NodeClass, NodeClaim, NodePool};
use cloud::unavailable::Scope;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Node;
use runtime::watch::Watch;
use runtime::{MinValuesPolicy, Shell};
use tokio_util::sync::CancellationToken;

use crate::catalog::CatalogHandle;
use crate::deps::Deps;
use crate::launch::{self, ClusterFacts, Launch, LaunchMetrics, Shortages, Templates};
use crate::nodeclass::{self, Addresses, ResolvedClasses};
use crate::{lifecycle, nodepool};

pub(crate) async fn spawn(shell: &mut Shell, deps: &Deps) -> anyhow::Result<()> {
    let settings = &deps.settings;
    let cluster = Arc::new(ClusterFacts::find(settings, &deps.kube, &*deps.classes).await?);
    let templates = Arc::new(Templates::new(deps.launcher.clone(), &settings.cluster_name));
    let (addresses, resolved) = (Addresses::default(), ResolvedClasses::default());
    let types = deps.catalog.clone();
    nodeclass::spawn(
        shell,
        nodeclass::Parts {
            source: deps.classes.clone(),
            launcher: deps.launcher.clone(),
            cluster: cluster.clone(),
            templates: templates.clone(),
            addresses: addresses.clone(),
            resolved: resolved.clone(),
            types: Arc::new(move |class| types.instance_types(class)),
            recorder: deps.recorder.clone(),
            leadership: deps.leadership.clone(),
            settings: settings.clone(),
        },
    );
    let groups = tell_groups(resolved.clone(), deps.catalog.clone(), shell.stop());
    shell.process.spawn("placement-groups", groups);

    let launch = Launch::new(launch::Parts {
        launcher: deps.launcher.clone(),
        cluster,
        shortages: Arc::new(deps.catalog.clone()),
        addresses,
        resolved,
        templates,
        metrics: LaunchMetrics::registered(&deps.metrics),
        reserved_capacity: settings.feature_gates.reserved_capacity,
        strict_min_values: settings.min_values_policy == MinValuesPolicy::Strict,
    });
    let stop = shell.stop();
    shell.process.spawn("launch", launch.clone().run(deps.leadership.clone(), stop));

    let (pools, health) = nodepool::spawn(shell, deps);
    let claims = lifecycle::spawn(shell, deps, launch, health);
    let kube = &deps.kube;
    shell.watch("lifecycle-nodeclaims", Watch::<NodeClaim>::all(kube.clone()), claims.clone());
    shell.watch("lifecycle-nodes", Watch::<Node>::all(kube.clone()), claims.clone());
    shell.watch("lifecycle-classes", Watch::<EC2NodeClass>::all(kube.clone()), (claims, pools.clone()));
    shell.watch("nodepool-pools", Watch::<NodePool>::all(kube.clone()), pools);
    Ok(())
}

impl Shortages for CatalogHandle {
    fn report<'a>(&'a self, scopes: Vec<Scope>, reason: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.report_unavailable(scopes, reason))
    }
}

/// Which types a class offers depends on its placement group.
async fn tell_groups(
    resolved: ResolvedClasses,
    catalog: CatalogHandle,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut latest = resolved.subscribe();
    let mut told = nodeclass::ByClass::default();
    loop {
        let now = latest.borrow_and_update().clone();
        for (class, found) in now.iter() {
            if told.get(class).map(|known| &known.placement_group) != Some(&found.placement_group) {
                catalog.set_placement_group(class, found.placement_group.clone()).await;
            }
        }
        for class in told.keys().filter(|class| !now.contains_key(*class)) {
            catalog.set_placement_group(class, None).await;
        }
        told = now;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = latest.changed() => if changed.is_err() {
                stop.cancelled().await;
                return Ok(());
            },
        }
    }
}
