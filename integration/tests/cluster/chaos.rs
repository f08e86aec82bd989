//! Random workloads, kills and AWS faults; afterwards everything converges and nothing is lost or left over.
//!
//! `CHAOS_HOURS` says how long, `CHAOS_SEED` what happens: `make chaos HOURS=1 SEED=7`. What is judged while it runs are the
//! invariants that stand beside every test (`integration::invariants`).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{NodeClaim, NodePool};
use integration::chaos::{Step, Steps};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, patiently, test};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use model::labels;
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    // It kills the API server, breaks AWS and ends instances within their warning.
    vec![test!("chaos", soak, nothing_is_lost_or_left_over_whatever_is_killed_or_fails).expecting(&[
        " may not ",
        "logged an error",
        "without eviction",
        "could not be looked at",
    ])]
}

const SERVICES: [(&str, &[&str]); 5] = [
    ("pricing-cache", &[]),
    ("provisioner", &[]),
    ("disruption", &["--validation-wait=2s"]),
    ("termination", &["--garbage-collection-interval=5s"]),
    ("interruption-watcher", &[]),
];
const DEPLOYMENTS: [(&str, &str); 4] = [("web", "500m"), ("api", "1"), ("batch", "2"), ("cache", "250m")];
/// Unless `CHAOS_HOURS` says more.
const HOURS: f64 = 0.05;

#[expect(clippy::disallowed_methods, reason = "length and seed of a long proof are its runner's to choose")]
fn chosen<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Chaos {
    stack: Stack,
    workload: Workload,
    services: Vec<Service>,
    /// Of each Deployment.
    replicas: [u32; DEPLOYMENTS.len()],
}

async fn nothing_is_lost_or_left_over_whatever_is_killed_or_fails(stack: Stack) -> Result<()> {
    let (hours, seed) = (chosen("CHAOS_HOURS", HOURS), chosen("CHAOS_SEED", 1_u64));
    println!("chaos for {hours} hours with seed {seed}");
    // Ended instances stay listed, so that two of one claim are still seen at the end.
    aws::put(&stack, "/settings", &json!({"terminatedListedMs": 86_400_000}))?;
    let mut chaos = Chaos::new(stack).await?;
    let until = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let (mut kills, mut faults) = (0, 0);
    for (number, (pause, step)) in Steps::new(seed).enumerate() {
        tokio::time::sleep(pause).await;
        if Instant::now() >= until {
            break;
        }
        println!("{number}: {step:?}");
        kills += u32::from(step.is_kill());
        faults += u32::from(step.is_fault());
        chaos.act(&step).await.with_context(|| format!("step {number} of seed {seed}: {step:?}"))?;
    }
    chaos.converges().await.with_context(|| format!("after seed {seed}"))?;
    println!("{kills} kills and {faults} faults with seed {seed}: converged");
    chaos.end().await
}

impl Chaos {
    async fn new(stack: Stack) -> Result<Self> {
        let services = SERVICES
            .iter()
            .map(|(name, arguments)| Service::start(&stack, name, 1, arguments))
            .collect::<Result<_>>()?;
        let pool = json!({"disruption": {"consolidateAfter": "5s", "budgets": [{"nodes": "3"}]}});
        let workload = Workload::new(&stack, "chaos", pool, json!({})).await?;
        for (name, cpu) in DEPLOYMENTS {
            workload.deploy(name, 2, cpu, json!({})).await?;
        }
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }))?;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(workload.client.clone(), &workload.name);
        budgets.create(&PostParams::default(), &budget).await?;
        Ok(Self { stack, workload, services, replicas: [2; DEPLOYMENTS.len()] })
    }

    async fn act(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Scale { deployment, replicas } => {
                let index = deployment % DEPLOYMENTS.len();
                self.replicas[index] = *replicas;
                self.workload.scale(DEPLOYMENTS[index].0, *replicas).await?;
            }
            Step::KillService { service, pause } => {
                self.kill_service(service % SERVICES.len(), *pause).await?
            }
            Step::KillApiServer => self.kill_component("kube-apiserver")?,
            Step::KillEtcd => self.kill_component("etcd")?,
            Step::FailCalls { action, code, percent } => {
                let rule = json!({"action": action, "code": code, "percent": percent, "status": 503});
                aws::put(&self.stack, "/errors", &rule)?;
            }
            Step::SlowCalls { action, millis } => {
                aws::put(&self.stack, "/latency", &json!({"action": action, "ms": millis}))?;
            }
            Step::Shortage { types, capacity_type } => {
                let pool = json!({"instanceType": types, "capacityType": capacity_type, "zone": "*"});
                aws::put(&self.stack, "/ice", &pool)?;
            }
            Step::Interrupt { instance } => {
                let spot: Vec<Value> =
                    self.instances()?.into_iter().filter(|one| one["lifecycle"] == "spot").collect();
                if let Some(one) = pick(&spot, *instance) {
                    let warning = json!({"ids": [one["id"]], "kind": "spot", "graceMs": 30_000});
                    aws::post(&self.stack, "/interrupt", &warning)?;
                }
            }
            Step::EndInstance { instance } => {
                if let Some(one) = pick(&self.instances()?, *instance) {
                    aws::put(&self.stack, "/instance", &json!({"id": one["id"], "state": "shutting-down"}))?;
                }
            }
            Step::DeleteClaim { claim } => {
                let claims = self.workload.claims().await?;
                if let Some(claim) = pick(&claims, *claim) {
                    let api: Api<NodeClaim> = Api::all(self.workload.client.clone());
                    let deleted = api.delete(&claim.name_any(), &DeleteParams::default()).await;
                    // It may have been deleted meanwhile.
                    if !matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 404) {
                        deleted?;
                    }
                }
            }
            Step::Drift { label } => {
                let patch =
                    json!({"spec": {"template": {"metadata": {"labels": {"drift": label.to_string()}}}}});
                let pools: Api<NodePool> = Api::all(self.workload.client.clone());
                pools.patch(&self.workload.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            Step::Heal => self.heal()?,
        }
        Ok(())
    }

    async fn kill_service(&mut self, index: usize, pause: Duration) -> Result<()> {
        self.services[index].kill(&self.stack)?;
        tokio::time::sleep(pause).await;
        // It may not become ready while AWS fails.
        let (name, arguments) = SERVICES[index];
        let mut options = vec!["--no-wait".to_owned()];
        options.extend(arguments.iter().map(|argument| format!("--arg={argument}")));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.services[index] = Service::start_with(&self.stack, name, 1, &options)?;
        Ok(())
    }

    /// kill -9, and the stack starts it again.
    fn kill_component(&self, name: &str) -> Result<()> {
        let file = self.stack.dir().join("pid").join(name);
        let pid = read_pid(&file)?;
        let killed = Command::new("kill").args(["-9", &pid]).status()?;
        ensure!(killed.success(), "could not kill {name}");
        self.stack.command(["up", "--services", "none"]).map(drop)
    }

    fn heal(&self) -> Result<()> {
        for path in ["/errors", "/latency", "/ice"] {
            aws::delete(&self.stack, path)?;
        }
        Ok(())
    }

    /// Instances of the pool that run.
    fn instances(&self) -> Result<Vec<Value>> {
        let all = aws::get(&self.stack, "/instances")?["instances"].as_array().cloned().context("a list")?;
        let is_ours = |one: &Value| {
            matches!(one["state"].as_str(), Some("pending" | "running"))
                && one["tags"][labels::NODEPOOL] == self.workload.name.as_str()
        };
        Ok(all.into_iter().filter(is_ours).collect())
    }

    /// Without faults every pod gets its place, and instances and claims are the same.
    async fn converges(&self) -> Result<()> {
        self.heal()?;
        for ((name, _), replicas) in DEPLOYMENTS.iter().zip(self.replicas) {
            self.workload.running_within(name, replicas as usize, 4).await?;
        }
        patiently(4, "one instance for each claim and a claim for each instance", || async {
            let claims: BTreeSet<String> =
                self.workload.claims().await?.iter().map(|claim| claim.name_any()).collect();
            let instances = self.instances()?;
            let named: BTreeSet<String> = instances
                .iter()
                .filter_map(|one| one["tags"]["karpenter.sh/nodeclaim"].as_str().map(str::to_owned))
                .collect();
            ensure!(
                claims == named && instances.len() == claims.len(),
                "claims {claims:?}, {} instances of {named:?}",
                instances.len()
            );
            Ok(Some(()))
        })
        .await
    }

    async fn end(self) -> Result<()> {
        self.workload.remove().await?;
        patiently(2, "all instances to be terminated", || async {
            Ok(self.instances()?.is_empty().then_some(()))
        })
        .await?;
        self.services.iter().rev().try_for_each(|service| service.stop(&self.stack))
    }
}

fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number.checked_rem(all.len())?)
}

fn read_pid(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    text.split_whitespace().next().map(str::to_owned).context("a pid file begins with the pid")
}
