//! `kubectl karpenter ui` as a person runs it: what happens in the cluster is in the page's stream, and its questions get the
//! provisioner's answers.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use integration::rpc::Impersonation;
use integration::workload::Workload;
use integration::{Stack, Test, eventually, test};
use proto::provisioner::v1::PlanRequest;
use proto::provisioner::v1::provisioner_client::ProvisionerClient;
use serde_json::{Map, Value, json};

use crate::live_page_scene::Ui;
use crate::provisioning::{services, stop};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("live_page", alone, a_scale_up_appears_on_the_page_and_its_questions_are_answered)]
}

/// The command, and the picture that its stream adds up to.
struct Page {
    ui: Ui,
    picture: Arc<Mutex<Map<String, Value>>>,
}

impl Page {
    fn open(stack: &Stack) -> Result<Self> {
        let ui = Ui::open(Path::new(stack.var("KUBECONFIG")?), &[])?;
        let page = Self { ui, picture: Arc::default() };
        page.follow()?;
        Ok(page)
    }

    fn follow(&self) -> Result<()> {
        let stream = ureq::get(format!("{}events", self.ui.url)).call()?;
        let picture = Arc::clone(&self.picture);
        // Ends with the command.
        std::thread::spawn(move || {
            let lines = BufReader::new(stream.into_body().into_reader()).lines();
            for line in lines.map_while(Result::ok) {
                let Some(patch) = line.strip_prefix("data: ") else { continue };
                let Ok(Value::Object(patch)) = serde_json::from_str(patch) else { return };
                merge(&mut lock(&picture), patch);
            }
        });
        Ok(())
    }

    fn part(&self, name: &str) -> Map<String, Value> {
        lock(&self.picture).get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    fn ask(&self, what: &str, question: &Value) -> Result<Value> {
        let mut answer = ureq::post(format!("{}{what}", self.ui.url)).send_json(question)?;
        Ok(answer.body_mut().read_json()?)
    }
}

fn lock(picture: &Mutex<Map<String, Value>>) -> MutexGuard<'_, Map<String, Value>> {
    picture.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As the page does: what is named is new, and what is null is gone.
fn merge(picture: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (part, value) in patch {
        let Value::Object(changes) = value else { continue };
        let known = picture.entry(part).or_insert_with(|| json!({}));
        let Some(known) = known.as_object_mut() else { continue };
        for (key, value) in changes {
            match value {
                Value::Null => drop(known.remove(&key)),
                value => drop(known.insert(key, value)),
            }
        }
    }
}

async fn a_scale_up_appears_on_the_page_and_its_questions_are_answered(stack: Stack) -> Result<()> {
    let running = services(&stack, &[])?;
    let workload = Workload::new(&stack, "page", json!({}), json!({})).await?;
    let page = Page::open(&stack)?;
    eventually("the page to be fed by the provisioner and termination", || async {
        let live = |name: &str| page.part("services").get(name).is_some_and(|each| each["state"] == "live");
        Ok((live("provisioner") && live("termination")).then_some(()))
    })
    .await?;
    let html = ureq::get(&page.ui.url).call()?.into_body().read_to_string()?;
    ensure!(html.starts_with("<!doctype html>") && html.contains("Content-Security-Policy"), "{html}");
    let foreign = ureq::get(&page.ui.url).header("host", "evil.example").call();
    ensure!(matches!(foreign, Err(ureq::Error::StatusCode(403))), "another name was answered: {foreign:?}");

    workload.deploy("web", 3, "500m", json!({})).await?;
    let began = Instant::now();
    let of_pool = |node: &Value| node["pool"] == *workload.name;
    eventually("the new node to appear on the page", || async {
        Ok(page.part("nodes").values().any(of_pool).then_some(()))
    })
    .await?;
    println!("a scale-up appeared on the page after {:.1} s", began.elapsed().as_secs_f64());
    workload.running("web", 3).await?;
    eventually("the page to show the node with its pods and price, and its launch", || async {
        let nodes = page.part("nodes");
        let ready = |n: &Value| of_pool(n) && n["phase"] == "initialised" && n["price"].as_i64() > Some(0);
        let pods =
            nodes.values().filter(|n| ready(n)).flat_map(|n| n["pods"].as_array().into_iter().flatten());
        let here = pods.filter(|pod| pod[0] == *workload.name).count();
        let launched = |d: &Value| d["kind"] == "launch" && d["ended"] == true;
        let decisions = page.part("decisions");
        ensure!(here == 3, "{here} pods on {:?}", nodes.values().filter(|n| of_pool(n)).collect::<Vec<_>>());
        ensure!(decisions.values().any(launched), "no launch among {decisions:?}");
        Ok(Some(()))
    })
    .await?;

    // The page's answer is the provisioner's.
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "more", "namespace": workload.name},
        "spec": {"replicas": 10, "selector": {"matchLabels": {"app": "more"}}, "template": {
            "metadata": {"labels": {"app": "more"}},
            "spec": {
                "nodeSelector": {"integration.example.com/tenant": workload.name},
                "containers": [{"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1"}}}],
            },
        }},
    });
    let reply = page.ask("plan", &json!({"objects": deployment.to_string()}))?;
    let person = Impersonation::person(&stack, runtime::Service::Provisioner).await?;
    let mut client = ProvisionerClient::new(person.peers.any());
    let request = PlanRequest { objects_json: vec![deployment.to_string()], ..PlanRequest::default() };
    let direct = client.plan(request).await?.into_inner();
    let hourly = |side: &str| reply[side]["hourly"].as_i64().unwrap_or_default();
    ensure!(
        reply["awaited"] == 0
            && hourly("changed") - hourly("today") == direct.micro_usd_per_hour
            && direct.micro_usd_per_hour > 0,
        "{reply} {direct:?}"
    );
    ensure!(reply["newNodes"].as_array().is_some_and(|n| n.len() == direct.new_nodes.len()), "{reply}");
    let Some((node, _)) = page.part("nodes").into_iter().find(|(_, node)| of_pool(node)) else {
        bail!("the node is gone");
    };
    let without = page.ask("plan", &json!({"remove": [node]}))?;
    let new = without["newNodes"].as_array().map_or(0, Vec::len);
    ensure!(
        new > 0 && without["today"]["hourly"].as_i64() > Some(0),
        "its pods need another node: {without}"
    );

    workload.remove().await?;
    eventually("the node to leave the page", || async {
        Ok((!page.part("nodes").values().any(of_pool)).then_some(()))
    })
    .await?;
    // The provisioner tells of the node, termination of its removal: either may be the first.
    eventually("its removal to be a decision that has ended", || async {
        let ended = |d: &Value| d["kind"] == "removal" && d["ended"] == true;
        Ok(page.part("decisions").values().any(ended).then_some(()))
    })
    .await?;
    drop(page);
    stop(&stack, &running)
}
