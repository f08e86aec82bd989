//! How long the provisioner takes for a decision while it is called without end: by strangers, who may not, and by a person who
//! may look.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use integration::workload::Workload;
use integration::{Service, Stack, patiently};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, PostParams};
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use proto::provisioner::v1::{PlanRequest, SimulateRequest};
use serde_json::json;

use super::flood::{Call, Callers, Flood};
use super::{Shown, endpoint, token_of, with_token};
use crate::provisioning;
use crate::rpc_access::binding;

/// Of each kind of caller.
const CONNECTIONS: usize = 4;
const AT_ONCE: usize = 8;
/// Of each caller: 320 calls a second of each of three kinds. 250 random tokens a second were once enough to keep a service's own
/// callers waiting for seconds.
const EVERY: Duration = Duration::from_millis(100);
/// A person's calls, one directly after the other, on as many as one person may have under way.
const OF_PERSON: usize = 16;
const AT_ONCE_AFTER: Duration = Duration::from_millis(1);

/// Of each kind of moment.
const DECISIONS: usize = 25;
/// The first ones fill caches.
const WARM_UP: usize = 3;
/// After a flood begins or ends.
const SETTLE: Duration = Duration::from_millis(700);
const BAR: f64 = 1.2;

const CREATED: &str = "karpenter_provisioner_window_to_created_seconds";
const DECIDED: &str = "karpenter_pods_scheduling_decision_duration_seconds";

/// Moments with and without callers alternate decision by decision, so that what else happens on the machine is in all of them.
pub(super) async fn strangers_slow_no_decision_by_more_than_a_fifth(stack: Stack) -> Result<()> {
    let services = provisioning::services(&stack, &[])?;
    let workload = Workload::new(&stack, "flooded", json!({}), json!({})).await?;
    // A node for each pod, and so a decision for each.
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "app"}}},
    ]}}});
    workload.deploy("app", 0, "1", apart).await?;
    let mut scene = Scene { provisioner: services[1].clone(), workload, pods: 0 };

    let audience = runtime::Service::Provisioner.audience();
    let (_, stranger) = token_of(&stack, "person", &audience).await?;
    let (space, person) = token_of(&stack, "person", &audience).await?;
    let grants: Api<ClusterRoleBinding> = Api::all(stack.admin().await?);
    let grant = grants.create(&PostParams::default(), &binding(&space, "karpenter-viewer")).await?;
    let to = || endpoint(&stack, &scene.provisioner, runtime::Service::Provisioner);
    let strangers = [Shown::Nothing, Shown::Valid(stranger), Shown::Random(FORGED)];
    let strangers = strangers.map(|shown| Callers {
        call: question(shown),
        connections: CONNECTIONS,
        at_once: AT_ONCE,
        every: EVERY,
    });
    let person = Callers {
        call: question(Shown::Valid(person)),
        connections: 1,
        at_once: OF_PERSON,
        every: AT_ONCE_AFTER,
    };
    let floods = [Flood::new(to()?, strangers.into()), Flood::new(to()?, vec![person])];

    for _ in 0..WARM_UP {
        scene.decide().await?;
    }
    let refused = scene.provisioner.metric("karpenter_rpc_refused_total", "")?;
    let mut moments = [Moments::default(), Moments::default(), Moments::default()];
    for _ in 0..DECISIONS {
        for (number, of) in moments.iter_mut().enumerate() {
            for (flood, is_its_turn) in floods.iter().zip([number == 1, number == 2]) {
                flood.set_loud(is_its_turn);
            }
            tokio::time::sleep(SETTLE).await;
            let before: Vec<[u64; 3]> = floods.iter().map(Flood::counts).collect();
            let (began, ticks) = (std::time::Instant::now(), scene.provisioner.cpu_ticks()?);
            let decision = scene.decide().await?;
            of.seconds += began.elapsed().as_secs_f64();
            of.ticks += scene.provisioner.cpu_ticks()? - ticks;
            of.decided.push(decision.decided);
            of.created.push(decision.created);
            for (flood, before) in floods.iter().zip(before) {
                let now = flood.counts();
                (0..3).for_each(|which| of.calls[which] += now[which] - before[which]);
            }
        }
    }
    let refused = scene.provisioner.metric("karpenter_rpc_refused_total", "")? - refused;
    let resident = scene.provisioner.resident_bytes()? >> 20;
    floods.into_iter().try_for_each(Flood::end)?;
    grants.delete(grant.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;

    for (what, of) in ["without callers", "with strangers", "with a person who plans"].iter().zip(&moments) {
        println!("{DECISIONS} decisions {what}: {of}");
    }
    let [quiet, strangers, person] = &moments;
    let ratio = |of: &Moments| {
        (median(&of.decided) / median(&quiet.decided), median(&of.created) / median(&quiet.created))
    };
    println!(
        "slowed, by medians (pod seen → decided, window closed → claim created): by strangers {:.3?}, by a person who \
         plans {:.3?}; {refused} calls refused; {resident} MiB resident",
        ratio(strangers),
        ratio(person),
    );
    ensure!(refused > 1000.0, "that was no flood: {refused} calls were refused");
    ensure!(person.calls[1] > 0, "the person was answered nothing");
    let (decided, created) = ratio(strangers);
    ensure!(decided <= BAR && created <= BAR, "strangers slowed decisions: {decided:.3}, {created:.3}");
    scene.workload.remove().await?;
    provisioning::stop(&stack, &services)
}

/// `{"aud":["provisioner.rpc.karpenter.sh"],"exp":4102444800}`.
const FORGED: &str = "eyJhdWQiOlsicHJvdmlzaW9uZXIucnBjLmthcnBlbnRlci5zaCJdLCJleHAiOjQxMDI0NDQ4MDB9";

/// `Plan` and `Simulate` in turn: the questions that cost most.
fn question(shown: Shown) -> Call {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "asked", "namespace": "default"},
        "spec": {"replicas": 1000, "selector": {"matchLabels": {"app": "asked"}}, "template": {
            "metadata": {"labels": {"app": "asked"}},
            "spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked", "namespace": "default", "uid": "asked"},
        "spec": {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    let plan = PlanRequest { objects_json: vec![deployment.to_string()], ..PlanRequest::default() };
    let simulation = SimulateRequest { add_pods_json: vec![pod.to_string()], ..SimulateRequest::default() };
    Arc::new(move |channel, number| {
        let mut client = ProvisionerClient::new(channel);
        let (shown, plan, simulation) = (shown.clone(), plan.clone(), simulation.clone());
        Box::pin(async move {
            match number % 2 {
                0 => client.plan(with_token(plan, &shown, number)).await.map(drop),
                _ => client.simulate(with_token(simulation, &shown, number)).await.map(drop),
            }
        })
    })
}

struct Scene {
    provisioner: Service,
    workload: Workload,
    pods: u32,
}

/// Seconds.
struct Decision {
    /// From the pod's first sight: almost all of it is the time in which more pods may come.
    decided: f64,
    /// From the end of that time to the NodeClaim being stored.
    created: f64,
}

impl Scene {
    /// One more pod, one more node.
    async fn decide(&mut self) -> Result<Decision> {
        let before = [self.histogram(CREATED)?, self.histogram(DECIDED)?];
        self.pods += 1;
        self.workload.scale("app", self.pods).await?;
        // Looking often would cost the service time that is then measured.
        let after = patiently(4, "a decision about one pod", || async {
            let now = [self.histogram(CREATED)?, self.histogram(DECIDED)?];
            Ok((now[0].count > before[0].count && now[1].count > before[1].count).then_some(now))
        })
        .await?;
        let [created, decided] = [0, 1].map(|which| {
            let (before, after): (&Histogram, &Histogram) = (&before[which], &after[which]);
            (after.sum - before.sum) / (after.count - before.count)
        });
        // kube-scheduler may give the node to a younger pod; this one would be decided about again, which is not counted.
        self.workload.running("app", self.pods as usize).await?;
        Ok(Decision { decided, created })
    }

    fn histogram(&self, name: &str) -> Result<Histogram> {
        let of = |part: &str| self.provisioner.metric(&format!("{name}_{part}"), "");
        Ok(Histogram { sum: of("sum")?, count: of("count")? })
    }
}

struct Histogram {
    sum: f64,
    count: f64,
}

/// What was measured while one kind of caller was there.
#[derive(Default)]
struct Moments {
    decided: Vec<f64>,
    created: Vec<f64>,
    seconds: f64,
    /// Processor time of the provisioner, a hundred in a second.
    ticks: u64,
    /// Made, answered, refused as too many.
    calls: [u64; 3],
}

impl std::fmt::Display for Moments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let a_second = |count: u64| count as f64 / self.seconds;
        let [made, answered, crowded] = self.calls.map(a_second);
        write!(
            f,
            "pod seen → decided {:.3} s (p90 {:.3}), window closed → claim created {:.1} ms (p90 {:.1}), {:.0} % of a core; \
             {made:.0} calls a second, of which {answered:.1} answered and {crowded:.0} refused as too many",
            median(&self.decided),
            quantile(&self.decided, 0.9),
            median(&self.created) * 1e3,
            quantile(&self.created, 0.9) * 1e3,
            a_second(self.ticks),
        )
    }
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

fn quantile(values: &[f64], which: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * which).round() as usize]
}
