//! `kubectl karpenter ui` as a person runs it who may only look, and the page in a browser.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use integration::browser::Browser;
use integration::workload::Workload;
use integration::{Service, Stack, eventually, rpc};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use serde_json::{Value, json};

/// Where our services are, and the Roles for people.
const SYSTEM: &str = "kube-system";
/// How many feed the page.
pub(crate) const SERVICES: usize = 5;
/// The Role that the chart has for people who only look.
const VIEWER: &str = "karpenter-viewer";

/// The command that is closest to a person: environment variables of the local cluster are not used.
pub(crate) fn kubectl_karpenter(kubeconfig: &Path) -> Result<Command> {
    let mut command = Command::new(rpc::binary("provisioner")?.with_file_name("kubectl-karpenter"));
    command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
    for service in ["PROVISIONER", "DISRUPTION", "TERMINATION", "PRICING_CACHE", "INTERRUPTION_WATCHER"] {
        command.env_remove(format!("GRPC_{service}"));
    }
    Ok(command)
}

/// A running `ui`. Ends with the value.
pub(crate) struct Ui {
    process: Child,
    /// With a slash at its end.
    pub(crate) url: String,
}

impl Ui {
    pub(crate) fn open(kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        let mut command = kubectl_karpenter(kubeconfig)?;
        command.args(["ui", "--no-open"]).args(flags).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().with_context(|| format!("{command:?}"))?;
        let printed = process.stdout.take().context("piped");
        let mut ui = Self { process, url: String::new() };
        BufReader::new(printed?).read_line(&mut ui.url)?;
        ui.url.truncate(ui.url.trim_end().len());
        ensure!(ui.url.starts_with("http://127.0.0.1:"), "it printed {:?}", ui.url);
        Ok(ui)
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An account in the test's namespace that has no rights until it is given some, and its kubeconfig.
pub(crate) struct Person {
    client: Client,
    name: String,
    namespace: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Person {
    pub(crate) async fn new(stack: &Stack, client: &Client, namespace: &str) -> Result<Self> {
        let (client, namespace, name) = (client.clone(), namespace.to_owned(), "person".to_owned());
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &namespace);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        accounts.create(&PostParams::default(), &ServiceAccount { metadata, ..Default::default() }).await?;
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let issued = accounts.create_token_request(&name, &PostParams::default(), &request).await?;
        let token = issued.status.context("a token was issued")?.token;
        let administrators = std::fs::read_to_string(stack.var("KUBECONFIG")?)?;
        let mut own: Value = serde_json::from_str(&administrators).context("read the kubeconfig")?;
        own["users"][0]["user"] = json!({"token": token});
        let kubeconfig = stack.dir().join(format!("kubeconfig-of-{namespace}"));
        std::fs::write(&kubeconfig, own.to_string())?;
        Ok(Self { client, name, namespace, kubeconfig })
    }

    /// As an administrator does for people who may look at the services and change nothing.
    pub(crate) async fn may_look(&self) -> Result<()> {
        let binding = RoleBinding {
            metadata: ObjectMeta { name: Some(self.namespace.clone()), ..ObjectMeta::default() },
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: VIEWER.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: self.name.clone(),
                namespace: Some(self.namespace.clone()),
                ..Subject::default()
            }]),
        };
        self.bindings().create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    pub(crate) async fn may_not_look_any_more(&self) -> Result<()> {
        self.bindings().delete(&self.namespace, &DeleteParams::default()).await?;
        Ok(())
    }

    fn bindings(&self) -> Api<RoleBinding> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }
}

/// The page of a running `ui` in a browser.
pub(crate) struct Page {
    pub(crate) ui: Ui,
    pub(crate) browser: Browser,
}

impl Page {
    /// `flags` are those of `ui`.
    pub(crate) fn open(browser: Browser, kubeconfig: &Path, flags: &[&str]) -> Result<Self> {
        let ui = Ui::open(kubeconfig, flags)?;
        browser.open(&ui.url)?;
        Ok(Self { ui, browser })
    }

    /// Waits until the page shows what all services say.
    pub(crate) async fn is_live(&self) -> Result<()> {
        eventually("the page to be fed by all services", || async {
            let states = self.run(
                "const { services } = window.karpenter.model;
                 return [...services].map(([name, each]) => [name, each.state, each.detail])",
                &json!([]),
            )?;
            let live = |all: &Vec<Value>| all.len() == SERVICES && all.iter().all(|each| each[1] == "live");
            ensure!(states.as_array().is_some_and(live), "{states}");
            Ok(Some(()))
        })
        .await
    }

    /// The body of a function and its arguments.
    pub(crate) fn run(&self, script: &str, arguments: &Value) -> Result<Value> {
        self.browser.run(script, arguments)
    }

    /// Waits until a function returns true.
    pub(crate) async fn comes_to(&self, what: &str, script: &str, arguments: &Value) -> Result<()> {
        eventually(what, || async { Ok((self.run(script, arguments)? == true).then_some(())) }).await
    }

    /// Chooses a view.
    pub(crate) fn show(&self, view: &str) -> Result<()> {
        self.run("document.getElementById('tab-' + arguments[0]).click()", &json!([view])).map(drop)
    }

    /// What an element shows as text.
    pub(crate) fn text_of(&self, selector: &str) -> Result<String> {
        let text = self.run("return document.querySelector(arguments[0]).innerText", &json!([selector]))?;
        Ok(text.as_str().with_context(|| format!("{selector} shows {text}"))?.to_owned())
    }

    /// Waits until an element shows all of these words at once.
    pub(crate) async fn shows(&self, selector: &str, words: &[&str]) -> Result<()> {
        eventually(&format!("{selector} to show {words:?}"), || async {
            let text = self.text_of(selector)?;
            ensure!(words.iter().all(|word| text.contains(word)), "it shows {text:?}");
            Ok(Some(()))
        })
        .await
    }
}

/// All services that feed the page, a pool of the test's own, and the page of a person who may look.
pub(crate) struct Scene {
    stack: Stack,
    running: Vec<Service>,
    pub(crate) workload: Workload,
    pub(crate) person: Person,
    pub(crate) page: Page,
}

impl Scene {
    /// `flags` are those of `ui`.
    pub(crate) async fn new(stack: Stack, name: &str, flags: &[&str]) -> Result<Self> {
        // Before everything else: without Chromium the test is skipped.
        let browser = Browser::start()?;
        let running = services(&stack, &[])?;
        let workload = Workload::new(&stack, name, json!({}), json!({})).await?;
        let person = Person::new(&stack, &workload.client, &workload.name).await?;
        person.may_look().await?;
        let page = Page::open(browser, &person.kubeconfig, flags)?;
        page.is_live().await?;
        Ok(Self { stack, running, workload, person, page })
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.person.may_not_look_any_more().await?;
        self.workload.remove().await?;
        self.running.iter().rev().try_for_each(|service| service.stop(&self.stack))
    }
}

/// The services that feed the page; disruption gets these flags.
pub(crate) fn services(stack: &Stack, disruption: &[&str]) -> Result<Vec<Service>> {
    let all = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let flags = |name: &str| if name == "disruption" { disruption } else { &[] };
    all.into_iter().map(|name| Service::start(stack, name, 1, flags(name))).collect()
}
