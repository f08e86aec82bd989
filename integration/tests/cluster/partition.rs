//! The network swallows what a running service and the API server send each other, and closes nothing: the service notices that
//! its watches have gone silent, says so, and acts again once new connections work. Connections of before never work again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use integration::black_hole::BlackHole;
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, test};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("partition", alone, a_silent_watch_is_opened_again_within_75_seconds),
        test!("partition", soak, a_service_in_a_long_partition_says_so_and_acts_again_after_it),
    ]
}

/// Some pod changes this often, so that a watch of pods that works is never silent for long.
const CHANGES: Duration = Duration::from_millis(500);
/// Seconds of silence that only a watch without packets reaches, and that a watch which was opened again is below.
const SILENT: f64 = 15.0;
/// From the moment when new connections work.
const REOPENED: Duration = Duration::from_secs(75);

async fn a_silent_watch_is_opened_again_within_75_seconds(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack).await?;
    scene.partition(|scene| Ok(scene.silence()? >= SILENT)).await?;
    scene.end().await
}

async fn a_service_in_a_long_partition_says_so_and_acts_again_after_it(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack).await?;
    let says = |scene: &Scene| {
        let detail = scene.provisioner.admin_get("/readyz")?;
        let note = detail.lines().find(|line| line.contains("no event or bookmark of"));
        Ok(note.is_some_and(|note| note.contains("pods") && note.contains("nodes")))
    };
    scene.partition(says).await?;
    eventually("the readiness detail to be clear again", || async {
        Ok((!scene.provisioner.admin_get("/readyz")?.contains("no event or bookmark of")).then_some(()))
    })
    .await?;
    scene.end().await
}

/// A provisioner that reaches the API server through a black hole, and a workload whose pods change all the time.
struct Scene {
    stack: Stack,
    hole: BlackHole,
    provisioner: Service,
    others: [Service; 2],
    workload: Workload,
    _changing: JoinSet<()>,
}

impl Scene {
    async fn new(stack: Stack) -> Result<Self> {
        // The local cluster writes kubeconfigs as JSON.
        let text = std::fs::read_to_string(stack.var("KUBECONFIG")?).context("read the kubeconfig")?;
        let mut config: Value = serde_json::from_str(&text)?;
        let server = config["clusters"][0]["cluster"]["server"].as_str().context("a server")?;
        let server = server.strip_prefix("https://").context("https")?.parse().context("an address")?;
        let hole = BlackHole::new(server).await?;
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", hole.address));
        config["users"][0]["user"] = json!({"token": stack.token("provisioner", &[]).await?});
        let file = stack.dir().join("partition.kubeconfig");
        std::fs::write(&file, config.to_string())?;

        let pricing = Service::start(&stack, "pricing-cache", 1, &[])?;
        let through = format!("--env=KUBECONFIG={}", file.display());
        let provisioner = Service::start_with(&stack, "provisioner", 1, &[&through])?;
        let termination = Service::start(&stack, "termination", 1, &[])?;
        ensure!(hole.connections() > 0, "the provisioner does not go through the black hole");
        let workload = Workload::new(&stack, "partition", json!({}), json!({})).await?;
        workload.deploy("before", 1, "1", json!({})).await?;
        workload.running("before", 1).await?;
        let mut changing = JoinSet::new();
        changing.spawn(change_without_end(workload.pods()));
        let others = [pricing, termination];
        Ok(Self { stack, hole, provisioner, others, workload, _changing: changing })
    }

    /// How long ago the provisioner's watch of pods last brought something, in seconds.
    fn silence(&self) -> Result<f64> {
        self.provisioner.metric("karpenter_watch_silence_seconds", "kind=\"pods\"")
    }

    /// Nothing passes until `is_over`; pods come meanwhile, and get nodes afterwards.
    async fn partition(&self, is_over: impl Fn(&Self) -> Result<bool>) -> Result<()> {
        eventually("the watch of pods to bring changes", || async {
            Ok((self.silence()? < SILENT / 2.0).then_some(()))
        })
        .await?;
        self.hole.swallow();
        let began = Instant::now();
        self.workload.deploy("meanwhile", 3, "1", json!({})).await?;
        eventually("the end of the partition", || async { Ok(is_over(self)?.then_some(())) }).await?;
        ensure!(self.silence()? >= SILENT, "the watch brought something through a black hole");

        let (lasted, connections) = (began.elapsed(), self.hole.connections());
        self.hole.pass_new_connections();
        let passes = Instant::now();
        eventually("the watch of pods to be opened again", || async {
            Ok((self.silence()? < SILENT).then_some(()))
        })
        .await?;
        let reopened = passes.elapsed();
        ensure!(self.hole.connections() > connections, "the watch is still that of before");
        self.workload.running("meanwhile", 3).await?;
        println!(
            "nothing passed for {lasted:.1?}; the watch was open again {reopened:.1?} after that ({:.1?} after its last \
             packet), and the pods ran after {:.1?}",
            lasted + reopened,
            passes.elapsed()
        );
        ensure!(reopened <= REOPENED, "the watch was opened again only after {reopened:?}");
        Ok(())
    }

    async fn end(self) -> Result<()> {
        self.workload.remove().await?;
        self.provisioner.stop(&self.stack)?;
        self.others.iter().try_for_each(|service| service.stop(&self.stack))
    }
}

async fn change_without_end(pods: Api<Pod>) {
    let mut pace = tokio::time::interval(CHANGES);
    for number in 0_u64.. {
        pace.tick().await;
        let Ok(found) = pods.list(&ListParams::default().labels("app=before")).await else { continue };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"changed": number.to_string()}}}));
        for pod in &found.items {
            // It may be on its way out; another one comes.
            let _ = pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await;
        }
    }
}
