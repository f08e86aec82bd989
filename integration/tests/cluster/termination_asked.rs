//! What people and other services ask of termination: removals, who waits for what, once and live; its traces; and that it
//! goes on when a replica is killed or stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use integration::{Stack, Test, eventually, jaeger, rpc, test};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::removal_scene::{Options, Scene};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("termination_asked", terminate_stores_deletion_and_deadline_and_refuses_namesakes)
            .expecting(&["without eviction"]),
        test!("termination_asked", a_person_watches_a_drain_from_its_obstacle_to_its_end),
        test!("termination_asked", the_stages_of_a_removal_continue_the_trace_of_the_node),
        test!(
            "termination_asked",
            alone,
            another_replica_takes_over_drains_from_one_that_is_killed_or_stopped
        ),
    ]
}

// Cases: EVQ-16
async fn terminate_stores_deletion_and_deadline_and_refuses_namesakes(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "rpc").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("db", &name, json!({})).await?;
    let namesake = json!({"nodeClaim": {"name": name, "uid": "someone-else"}, "reason": "test"});
    let refused = scene.call("Terminate", &namesake).expect_err("a namesake");
    ensure!(format!("{refused:#}").contains("FailedPrecondition"), "{refused:#}");
    let missing =
        scene.call("Terminate", &json!({"nodeClaim": {"name": "no-such"}})).expect_err("no such claim");
    ensure!(format!("{missing:#}").contains("NotFound"), "{missing:#}");

    let far = json!({"nodeClaim": {"name": name}, "reason": "spot_interrupted", "deadline": "2099-01-01T00:00:00Z"});
    let first = scene.call("Terminate", &far)?;
    ensure!(first["alreadyDeleting"] != true && first["deadline"] == "2099-01-01T00:00:00Z", "{first}");
    scene.waits_for(&name, "pdb").await?;
    let drain = scene.drains()?.into_iter().find(|drain| drain["node"] == *name).context("its drain")?;
    ensure!(drain["reason"] == "spot_interrupted", "{drain}");
    // A later deadline changes nothing, an earlier one counts.
    let later = json!({"nodeClaim": {"name": name}, "deadline": "2100-01-01T00:00:00Z"});
    let second = scene.call("Terminate", &later)?;
    ensure!(second["alreadyDeleting"] == true && second["deadline"] == "2099-01-01T00:00:00Z", "{second}");
    let past = json!({"nodeClaim": {"name": name}, "deadline": "2026-01-01T00:00:00Z"});
    scene.call("Terminate", &past)?;
    scene.is_gone(&name, &instance).await?;
    Ok(())
}

/// `kubectl karpenter …` as a person runs it, who has a kubeconfig and nothing else.
fn kubectl(scene: &Scene, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(rpc::binary("termination")?.with_file_name("kubectl-karpenter"));
    command.args(words).env("KUBECONFIG", scene.stack.var("KUBECONFIG")?).env_remove("GRPC_TERMINATION");
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

fn printed(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A command that goes on printing.
struct Watching {
    process: std::process::Child,
    printed: Arc<Mutex<String>>,
    reader: JoinHandle<std::io::Result<()>>,
}

impl Watching {
    fn start(mut command: Command) -> Result<Self> {
        let mut process = command.spawn().with_context(|| format!("{command:?}"))?;
        let stdout = process.stdout.take().context("its output is piped")?;
        let printed = Arc::new(Mutex::new(String::new()));
        let reader = tokio::task::spawn_blocking({
            let printed = printed.clone();
            move || {
                for line in BufReader::new(stdout).lines() {
                    let line = line?;
                    let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                    printed.push_str(&line);
                    printed.push('\n');
                }
                Ok(())
            }
        });
        Ok(Self { process, printed, reader })
    }

    fn text(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn anything(&self) -> bool {
        !self.text().is_empty()
    }

    /// All it printed, once it has ended well by itself.
    async fn end(mut self) -> Result<String> {
        (&mut self.reader).await??;
        let text = self.text();
        let output = tokio::task::spawn_blocking(move || self.process.wait_with_output()).await??;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }
}

// Cases: TRM-13
async fn a_person_watches_a_drain_from_its_obstacle_to_its_end(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "watched").await?;
    let name = scene.name(1);
    let instance = scene.node(&name, &Options::default()).await?;
    scene.node_is_ready(&name, true).await?;
    scene.budget("db", json!({"maxUnavailable": 0})).await?;
    scene.pod("db", &name, json!({})).await?;
    scene.pod("web", &name, json!({})).await?;
    let before = printed(kubectl(&scene, &["drains", &name])?)?;
    ensure!(before.contains("no node is being removed"), "{before}");
    scene.delete_claim(&name).await?;
    scene.waits_for(&name, "pdb").await?;
    let watching = Watching::start(kubectl(&scene, &["drains", &name, "--watch", "-o", "json"])?)?;
    eventually("the watching person to see it", || async { Ok(watching.anything().then_some(())) }).await?;

    let pdb = format!("{}/db: PDB {}/db allows 0 disruptions", scene.namespace, scene.namespace);
    eventually("the table to show one pod gone and one that waits", || async {
        let table = printed(kubectl(&scene, &["drains", "--nodepool", &scene.namespace])?)?;
        let shown = table.contains(&name) && table.contains("[#####.....] 1/2") && table.contains(&pdb);
        ensure!(shown, "{table}");
        Ok(Some(()))
    })
    .await?;
    let pdbs: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(scene.client.clone(), &scene.namespace);
    let open = Patch::Merge(json!({"spec": {"maxUnavailable": null, "minAvailable": 0}}));
    pdbs.patch("db", &PatchParams::default(), &open).await?;
    scene.is_gone(&name, &instance).await?;

    // It ends by itself once the node is gone.
    let text = watching.end().await?;
    let seen: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let phase = |drain: &Value| drain["phase"].as_str().unwrap_or_default().to_owned();
    ensure!(seen.first().is_some_and(|drain| phase(drain) == "draining"), "{text}");
    ensure!(seen.iter().any(|drain| drain["waiting"][0]["kind"] == "pdb"), "{text}");
    ensure!(seen.iter().any(|drain| phase(drain) == "terminating"), "{text}");
    let last = seen.last().context("a last line")?;
    ensure!(phase(last) == "gone" && last["podsGone"] == 2 && last["podsTotal"] == 2, "{last}");
    Ok(())
}

async fn the_stages_of_a_removal_continue_the_trace_of_the_node(stack: Stack) -> Result<()> {
    let scene = Scene::new(stack, "traced").await?;
    let name = scene.name(1);
    let uid = scene.pods().list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
    // Another in every run: the namespace's own number, as hex digits of a trace id.
    let trace = format!("7e57{uid:0>28}");
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let claim = json!({"metadata": {"annotations": {"karpenter.sh/traceparent": parent}}});
    let instance = scene.node(&name, &Options { claim, ..Options::default() }).await?;
    scene.node_is_ready(&name, true).await?;
    scene.pod("web", &name, json!({})).await?;
    scene.delete_claim(&name).await?;
    scene.is_gone(&name, &instance).await?;
    eventually("the spans of the removal", || async {
        let spans = jaeger::trace(&scene.stack, &trace)?;
        let names: Vec<&str> = spans.iter().map(|span| span.operation.as_str()).collect();
        for wanted in ["terminate nodeclaim", "drain node", "taint", "pods leave", "instance ends"] {
            ensure!(names.contains(&wanted), "no {wanted:?} among {names:?}");
        }
        let drain = spans.iter().find(|span| span.operation == "drain node").context("just seen")?;
        ensure!(drain.parent.as_deref() == Some("00f067aa0ba902b7"), "{drain:?}");
        let pods = spans.iter().find(|span| span.operation == "pods leave").context("just seen")?;
        ensure!(pods.parent.as_ref() == Some(&drain.id), "{pods:?}");
        Ok(Some(()))
    })
    .await
}

async fn leads(scene: &Scene, identity: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), "kube-system");
    eventually(&format!("{identity} to lead"), || async {
        let holder = leases.get("karpenter-termination").await?.spec.and_then(|spec| spec.holder_identity);
        Ok((holder.as_deref() == Some(identity)).then_some(()))
    })
    .await
}

// Cases: TRM-13
async fn another_replica_takes_over_drains_from_one_that_is_killed_or_stopped(stack: Stack) -> Result<()> {
    let mut scene = Scene::alone(stack, "handover").await?;
    leads(&scene, &scene.service.identity()).await?;
    let follower = scene.follower()?;
    let mut nodes = Vec::new();
    for number in 0..6 {
        let name = scene.name(number);
        let instance = scene.node(&name, &Options::default()).await?;
        scene.pod(&format!("p{number}"), &name, json!({})).await?;
        nodes.push((name, instance));
    }
    scene.budget("held", json!({"maxUnavailable": 0})).await?;
    scene.pod("held", &nodes[5].0, json!({})).await?;
    for (name, _) in &nodes {
        scene.delete_claim(name).await?;
    }
    scene.waits_for(&nodes[5].0, "pdb").await?;
    // One that follows answers too, from what it has watched.
    let told = scene.call_to(&follower, "ListDrains", &json!({}))?.to_string();
    ensure!(told.contains("allows 0 disruptions"), "{told}");
    let refused = scene.call_to(&follower, "Terminate", &json!({"nodeClaim": {"name": nodes[5].0}}));
    let refused = format!("{:#}", refused.expect_err("only the leader writes"));
    ensure!(refused.contains("NOT_LEADER") || refused.contains("FailedPrecondition"), "{refused}");

    scene.service.kill(&scene.stack)?;
    leads(&scene, &follower.identity()).await?;
    for (name, instance) in &nodes[..5] {
        scene.is_gone(name, instance).await?;
    }
    ensure!(scene.pods().get("held").await?.metadata.deletion_timestamp.is_none(), "evicted past its budget");

    // Back again, and now the second one is stopped in an orderly way.
    scene.restart()?;
    follower.stop(&scene.stack)?;
    leads(&scene, &scene.service.identity()).await?;
    let pdbs: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(scene.client.clone(), &scene.namespace);
    let open = Patch::Merge(json!({"spec": {"maxUnavailable": null, "minAvailable": 0}}));
    pdbs.patch("held", &PatchParams::default(), &open).await?;
    let (name, instance) = &nodes[5];
    scene.is_gone(name, instance).await?;
    scene.no_drain_is_left().await
}
