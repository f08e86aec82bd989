//! Random workloads, kills, partitions, upgrades and AWS faults; afterwards everything converges and nothing is lost or left over.
//!
//! `CHAOS_HOURS` or `CHAOS_STEPS` says how long, `CHAOS_SEED` what happens: `make chaos HOURS=1 SEED=7`. With `PREVIOUS_BIN_DIR`
//! (`PREVIOUS=`) upgrades and downgrades go between this build and the services in that directory. What is judged while it runs
//! are the invariants that stand beside every test (`integration::invariants`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{NodeClaim, NodePool};
use integration::black_hole::BlackHole;
use integration::chaos::{Side, Step, Steps};
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
/// Unless `CHAOS_HOURS` or `CHAOS_STEPS` says more.
const HOURS: f64 = 0.05;
/// As good as no limit, where the number of steps is one.
const UNLIMITED_HOURS: f64 = 1000.0;

#[expect(clippy::disallowed_methods, reason = "length and seed of a long proof are its runner's to choose")]
fn chosen<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn previous() -> Option<PathBuf> {
    std::env::var_os("PREVIOUS_BIN_DIR").map(PathBuf::from)
}

struct Chaos {
    stack: Stack,
    workload: Workload,
    members: Vec<Member>,
    /// Of each Deployment.
    replicas: [u32; DEPLOYMENTS.len()],
    /// Services of the previous build, by number.
    previous: Option<PathBuf>,
    /// When the partitions end that there are.
    partitions: Vec<(Instant, usize, Side)>,
}

/// A service that reaches the API server, and is reached by the others, over hops of its own.
struct Member {
    service: Service,
    api_server: BlackHole,
    callers: BlackHole,
    kubeconfig: PathBuf,
}

impl Member {
    async fn start(stack: &Stack, index: usize) -> Result<Self> {
        let (name, _) = SERVICES[index];
        // A service's first start writes its kubeconfig.
        let first = Service::start_with(stack, name, 1, &["--no-wait"])?;
        first.stop(stack)?;
        let written = stack.dir().join("sa").join(name).join("kubeconfig");
        // The local cluster writes kubeconfigs as JSON.
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&written)?)?;
        let server = config["clusters"][0]["cluster"]["server"].as_str().context("a server")?;
        let server = server.strip_prefix("https://").context("https")?.parse().context("an address")?;
        let (api_server, callers) = (BlackHole::new(server).await?, BlackHole::new(server).await?);
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", api_server.address));
        let kubeconfig = stack.dir().join(format!("chaos-{name}.kubeconfig"));
        std::fs::write(&kubeconfig, config.to_string())?;
        let mut member = Self { service: first, api_server, callers, kubeconfig };
        member.run(stack, index, &[])?;
        Ok(member)
    }

    fn run(&mut self, stack: &Stack, index: usize, more: &[String]) -> Result<()> {
        let (name, arguments) = SERVICES[index];
        let mut options = more.to_vec();
        options.push(format!("--env=KUBECONFIG={}", self.kubeconfig.display()));
        options.push(format!("--env=ADVERTISE_ADDR={}", self.callers.address));
        options.extend(arguments.iter().map(|argument| format!("--arg={argument}")));
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        self.service = Service::start_with(stack, name, 1, &options)?;
        self.callers.lead_to(self.service.grpc.parse().context("the address of its gRPC server")?);
        Ok(())
    }

    fn hop(&self, side: Side) -> &BlackHole {
        match side {
            Side::ApiServer => &self.api_server,
            Side::Callers => &self.callers,
        }
    }
}

async fn nothing_is_lost_or_left_over_whatever_is_killed_or_fails(stack: Stack) -> Result<()> {
    let steps: usize = chosen("CHAOS_STEPS", usize::MAX);
    let hours = chosen("CHAOS_HOURS", if steps == usize::MAX { HOURS } else { UNLIMITED_HOURS });
    let seed = chosen("CHAOS_SEED", 1_u64);
    println!("chaos for {hours} hours with seed {seed}");
    // Ended instances stay listed, so that two of one claim are still seen at the end.
    aws::put(&stack, "/settings", &json!({"terminatedListedMs": 86_400_000}))?;
    let mut chaos = Chaos::new(stack).await?;
    let until = Instant::now() + Duration::from_secs_f64(hours * 3600.0);
    let (mut kills, mut faults) = (0, 0);
    for (number, (pause, step)) in Steps::new(seed).enumerate().take(steps) {
        tokio::time::sleep(pause).await;
        if Instant::now() >= until {
            break;
        }
        println!("{number}: {step:?}");
        chaos.end_partitions(Instant::now());
        let hit =
            chaos.act(&step).await.with_context(|| format!("step {number} of seed {seed}: {step:?}"))?;
        kills += u32::from(hit && step.is_kill());
        faults += u32::from(hit && step.is_fault());
    }
    chaos.converges().await.with_context(|| format!("after seed {seed}"))?;
    println!("{kills} kills and {faults} faults with seed {seed}: converged");
    chaos.end().await
}

impl Chaos {
    async fn new(stack: Stack) -> Result<Self> {
        let mut members = Vec::new();
        for index in 0..SERVICES.len() {
            members.push(Member::start(&stack, index).await?);
        }
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
        Ok(Self {
            stack,
            workload,
            members,
            replicas: [2; DEPLOYMENTS.len()],
            previous: previous(),
            partitions: Vec::new(),
        })
    }

    /// Whether there was something that the step could hit.
    async fn act(&mut self, step: &Step) -> Result<bool> {
        match step {
            Step::Scale { deployment, replicas } => {
                let index = deployment % DEPLOYMENTS.len();
                self.replicas[index] = *replicas;
                self.workload.scale(DEPLOYMENTS[index].0, *replicas).await?;
            }
            Step::KillService { service, pause } => {
                self.kill_service(service % SERVICES.len(), *pause).await?
            }
            Step::Replace { service, by_previous } => {
                let previous = if *by_previous { self.previous.clone() } else { None };
                self.replace_service(service % SERVICES.len(), previous.as_deref())?;
            }
            Step::Partition { service, side, lasts } => {
                let index = service % SERVICES.len();
                self.members[index].hop(*side).swallow();
                self.partitions.push((Instant::now() + *lasts, index, *side));
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
                let Some(one) = pick(&spot, *instance) else { return Ok(false) };
                let warning = json!({"ids": [one["id"]], "kind": "spot", "graceMs": 30_000});
                aws::post(&self.stack, "/interrupt", &warning)?;
            }
            Step::EndInstance { instance } => {
                let all = self.instances()?;
                let Some(one) = pick(&all, *instance) else { return Ok(false) };
                aws::put(&self.stack, "/instance", &json!({"id": one["id"], "state": "shutting-down"}))?;
            }
            Step::DeleteClaim { claim } => {
                let claims = self.workload.claims().await?;
                let Some(claim) = pick(&claims, *claim) else { return Ok(false) };
                let api: Api<NodeClaim> = Api::all(self.workload.client.clone());
                let deleted = api.delete(&claim.name_any(), &DeleteParams::default()).await;
                // It may have been deleted meanwhile.
                if matches!(&deleted, Err(kube::Error::Api(status)) if status.code == 404) {
                    return Ok(false);
                }
                deleted?;
            }
            Step::Drift { label } => {
                let patch =
                    json!({"spec": {"template": {"metadata": {"labels": {"drift": label.to_string()}}}}});
                let pools: Api<NodePool> = Api::all(self.workload.client.clone());
                pools.patch(&self.workload.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            Step::Heal => self.heal()?,
        }
        Ok(true)
    }

    /// Lets new connections pass again where a partition is over at `now`.
    fn end_partitions(&mut self, now: Instant) {
        let (over, lasting) = self.partitions.drain(..).partition(|(until, ..)| *until <= now);
        self.partitions = lasting;
        for (_, index, side) in over {
            // Another partition of the same hop may last longer.
            if !self.partitions.iter().any(|(_, of, on)| (*of, *on) == (index, side)) {
                self.members[index].hop(side).pass_new_connections();
            }
        }
    }

    async fn kill_service(&mut self, index: usize, pause: Duration) -> Result<()> {
        self.members[index].service.kill(&self.stack)?;
        tokio::time::sleep(pause).await;
        // It may not become ready while AWS fails.
        self.members[index].run(&self.stack, index, &["--no-wait".to_owned()])
    }

    fn replace_service(&mut self, index: usize, previous: Option<&Path>) -> Result<()> {
        self.members[index].service.stop(&self.stack)?;
        let mut options = vec!["--no-wait".to_owned()];
        options.extend(previous.map(|directory| format!("--bin-dir={}", directory.display())));
        self.members[index].run(&self.stack, index, &options)
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
    async fn converges(&mut self) -> Result<()> {
        self.heal()?;
        self.partitions.iter_mut().for_each(|(until, ..)| *until = Instant::now());
        self.end_partitions(Instant::now());
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
        self.members.iter().rev().try_for_each(|member| member.service.stop(&self.stack))
    }
}

fn pick<T>(all: &[T], number: usize) -> Option<&T> {
    all.get(number.checked_rem(all.len())?)
}

fn read_pid(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    text.split_whitespace().next().map(str::to_owned).context("a pid file begins with the pid")
}
