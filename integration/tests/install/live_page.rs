//! The live page where the services are reached through the API server only: `kubectl port-forward`, with the Role of a viewer.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use integration::rpc::binary;
use integration::{Service, Stack, Test, eventually, helm, test};
use serde_json::{Value, json};

use crate::forwarded::Forwarded;
use crate::people::{Person, VIEWER};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("live_page", alone, the_page_of_a_viewer_is_fed_and_answers_through_port_forward)]
}

/// Ended with the value.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("start {command:?}"))?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn the_page_of_a_viewer_is_fed_and_answers_through_port_forward(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let prices = Service::start(&stack, "pricing-cache", 0, &[])?;
    let provisioner = Service::start(&stack, "provisioner", 0, &[])?;
    let person = Person::new(&stack).await?;
    person.bind(VIEWER).await?;
    let forwarded = Forwarded::new(&stack, &provisioner).await?;
    let outcome = looks_through_port_forward(&stack, &person).await;
    forwarded.remove().await?;
    person.remove().await?;
    outcome?;
    provisioner.stop(&stack)?;
    prices.stop(&stack)
}

async fn looks_through_port_forward(stack: &Stack, person: &Person) -> Result<()> {
    eventually("the RoleBinding to count", || async {
        Ok(person.may("create", "", "pods/portforward", "any").await?.then_some(()))
    })
    .await?;
    let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut kubectl = Command::new(helm::program(stack, "kubectl")?);
    kubectl.args(["port-forward", "-n", "kube-system", "svc/karpenter-provisioner"]);
    kubectl.arg(format!("{free}:9090")).env("KUBECONFIG", &person.kubeconfig).stdout(Stdio::null());
    let forwarding = Running::start(&mut kubectl)?;
    eventually("the forwarded port to be open", || async {
        Ok(TcpStream::connect(("127.0.0.1", free)).ok().map(drop))
    })
    .await?;

    let mut ui = Command::new(binary("provisioner")?.with_file_name("kubectl-karpenter"));
    ui.args(["ui", "--no-open", "--address", &format!("127.0.0.1:{free}")]);
    let mut ui = Running::start(ui.env_clear().env("KUBECONFIG", &person.kubeconfig).stdout(Stdio::piped()))?;
    let mut url = String::new();
    BufReader::new(ui.0.stdout.take().context("piped")?).read_line(&mut url)?;
    let url = url.trim_end();
    ensure!(url.starts_with("http://127.0.0.1:"), "it printed {url:?}");
    provisioner_is(url, "live").await?;
    eventually("an answer to a what-if question", || async {
        let mut answer = ureq::post(format!("{url}plan")).send_json(json!({"objects": ""}))?;
        let plan: Value = answer.body_mut().read_json()?;
        ensure!(plan["newNodes"].is_array() && plan["today"]["hourly"].is_i64(), "{plan}");
        Ok(Some(()))
    })
    .await?;

    // It had no other way.
    drop(forwarding);
    provisioner_is(url, "lost").await
}

/// Waits until the page has that to say of the provisioner.
async fn provisioner_is(url: &str, state: &str) -> Result<()> {
    eventually(&format!("the page to say that the provisioner is {state}"), || async {
        let mut stream = BufReader::new(ureq::get(format!("{url}events")).call()?.into_body().into_reader());
        // The whole picture comes first.
        let mut first = String::new();
        stream.read_line(&mut first)?;
        let picture: Value = serde_json::from_str(first.trim_start_matches("data: "))?;
        let found = &picture["services"]["provisioner"];
        ensure!(found["state"] == state, "it says {found}");
        Ok(Some(()))
    })
    .await
}
