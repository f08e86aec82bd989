//! People who use `kubectl karpenter` with one of the chart's Roles and no other right in the cluster.

use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use integration::kubernetes::namespace;
use integration::rpc::binary;
use integration::workload::Workload;
use integration::{Service, Stack, Test, eventually, helm, test};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{RoleBinding, RoleRef, Subject};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::charts::values;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("people", the_chart_gives_people_the_same_rights_as_the_local_cluster),
        test!("people", alone, the_role_of_a_viewer_is_enough_to_look_and_for_nothing_else),
    ]
}

/// Where the services and the Roles for people are.
const SYSTEM: &str = "kube-system";
pub(crate) const VIEWER: &str = "karpenter-viewer";
pub(crate) const OPERATOR: &str = "karpenter-operator";
/// No command of disruption has this name.
const NO_COMMAND: &str = "c-0";

/// Somebody without any right until [`Person::bind`] gives some: a ServiceAccount stands for them.
pub(crate) struct Person {
    admin: Client,
    space: String,
    pub(crate) kubeconfig: PathBuf,
}

impl Person {
    pub(crate) async fn new(stack: &Stack) -> Result<Self> {
        let admin = stack.admin().await?;
        let space = namespace(&admin, "person").await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), &space);
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let issued = accounts.create_token_request("default", &PostParams::default(), &request).await?;
        let token = issued.status.context("a token was issued")?.token;
        // The administrator's, with another user; the local cluster writes them as JSON.
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(stack.var("KUBECONFIG")?)?)?;
        config["users"][0]["user"] = json!({"token": token});
        let kubeconfig = stack.dir().join(format!("kubeconfig-of-{space}"));
        std::fs::write(&kubeconfig, config.to_string())?;
        Ok(Self { admin, space, kubeconfig })
    }

    fn bindings(&self) -> Api<RoleBinding> {
        Api::namespaced(self.admin.clone(), SYSTEM)
    }

    /// As `kubectl create rolebinding … --role <role>` does.
    pub(crate) async fn bind(&self, role: &str) -> Result<()> {
        let binding = RoleBinding {
            metadata: ObjectMeta { name: Some(format!("{}-{role}", self.space)), ..ObjectMeta::default() },
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: role.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: "default".to_owned(),
                namespace: Some(self.space.clone()),
                ..Subject::default()
            }]),
        };
        self.bindings().create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    /// What `kubectl karpenter …` does on this person's machine.
    fn types(&self, words: &[&str]) -> Result<Output> {
        let program = binary("provisioner")?.with_file_name("kubectl-karpenter");
        let mut command = Command::new(program);
        command.args(words).env_clear().env("KUBECONFIG", &self.kubeconfig);
        command.output().with_context(|| format!("run {command:?}"))
    }

    /// What it complains of.
    fn is_refused(&self, words: &[&str]) -> Result<String> {
        let output = self.types(words)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success(), "{words:?} was not refused: {said}");
        Ok(said)
    }

    fn succeeds(&self, words: &[&str]) -> Result<()> {
        let output = self.types(words)?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// What the API server says of one verb on a resource in the services' namespace; `pods/exec` names a sub-resource.
    pub(crate) async fn may(&self, verb: &str, group: &str, resource: &str, name: &str) -> Result<bool> {
        let read = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let reviews: Api<SelfSubjectAccessReview> = Api::all(Client::try_from(config)?);
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = ResourceAttributes {
            namespace: Some(SYSTEM.to_owned()),
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()),
            name: Some(name.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec =
            SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.context("an answer")?.allowed)
    }

    pub(crate) async fn remove(self) -> Result<()> {
        for binding in self.bindings().list(&ListParams::default()).await? {
            if binding.name_any().starts_with(&self.space) {
                self.bindings().delete(&binding.name_any(), &DeleteParams::default()).await?;
            }
        }
        let spaces: Api<Namespace> = Api::all(self.admin.clone());
        spaces.delete(&self.space, &DeleteParams::default()).await?;
        std::fs::remove_file(&self.kubeconfig)?;
        Ok(())
    }
}

async fn the_role_of_a_viewer_is_enough_to_look_and_for_nothing_else(stack: Stack) -> Result<()> {
    let names = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let services: Vec<Service> =
        names.iter().map(|name| Service::start(&stack, name, 0, &[])).collect::<Result<_>>()?;
    let workload = Workload::new(&stack, "people", json!({}), json!({})).await?;
    workload.deploy("app", 1, "1", json!({})).await?;
    let node = workload.running("app", 1).await?.swap_remove(0);
    let person = Person::new(&stack).await?;
    let outcome = looks_and_changes_nothing(&stack, &person, &workload, &node).await;
    person.remove().await?;
    outcome?;
    workload.remove().await?;
    services.iter().try_for_each(|service| service.stop(&stack))
}

async fn looks_and_changes_nothing(
    stack: &Stack,
    person: &Person,
    workload: &Workload,
    node: &str,
) -> Result<()> {
    let stranger = person.is_refused(&["top"])?;
    ensure!(stranger.contains("forbidden"), "without any right: {stranger}");

    person.bind(VIEWER).await?;
    eventually("the RoleBinding to count", || async { person.succeeds(&["top"]).map(Some) }).await?;
    let pod = workload.pods().list(&ListParams::default()).await?.items.first().context("a pod")?.name_any();
    let pod = format!("{}/{pod}", workload.name);
    let file = stack.dir().join("viewed.html");
    let file = file.to_str().context("a path in UTF-8")?;
    for words in [
        &["explain", "node", node][..],
        &["explain", "pod", &pod],
        &["plan", "--live"],
        &["drains"],
        &["commands"],
        &["prices", "--type", "m5.large"],
        &["ui", "--snapshot", file],
    ] {
        person.succeeds(words)?;
    }
    ensure!(std::fs::read_to_string(file)?.contains(node), "the page of a viewer does not show the node");

    for (words, complaint) in [
        (&["commands", "cancel", NO_COMMAND][..], OPERATOR),
        (
            &["commands", "cancel", NO_COMMAND, "--service-account", VIEWER],
            "verb create on services/cancelcommand",
        ),
        (&["top", "--service-account", OPERATOR], OPERATOR),
        (&["pause", "--for", "1h", "--pool", &workload.name], "forbidden"),
    ] {
        let said = person.is_refused(words)?;
        ensure!(said.contains(complaint), "{words:?} was refused without naming {complaint:?}: {said}");
    }
    let pools: Api<api::NodePool> = Api::all(workload.client.clone());
    let annotations = pools.get(&workload.name).await?.annotations().clone();
    ensure!(!annotations.keys().any(|key| key == model::labels::PAUSED_UNTIL), "{annotations:?}");
    for (verb, group, resource, name) in [
        ("get", "", "secrets", "any"),
        ("create", "", "pods/exec", "any"),
        ("delete", "", "pods", "any"),
        ("create", "", "serviceaccounts/token", "karpenter-provisioner"),
        ("create", "", "serviceaccounts/token", OPERATOR),
        ("get", "rpc.karpenter.sh", "services/plan", "provisioner"),
        ("patch", "karpenter.sh", "nodepools", &workload.name),
        ("delete", "karpenter.sh", "nodeclaims", "any"),
        ("get", "", "configmaps", "any"),
    ] {
        ensure!(!person.may(verb, group, resource, name).await?, "a viewer may {verb} {resource} {name}");
    }
    for verb in ["get", "create"] {
        ensure!(
            person.may(verb, "", "pods/portforward", "any").await?,
            "no right to {verb} pods/portforward"
        );
    }

    person.bind(OPERATOR).await?;
    eventually("the leader to say to an operator that there is no such command", || async {
        let said = person.is_refused(&["commands", "cancel", NO_COMMAND])?;
        ensure!(said.contains(NO_COMMAND), "{said}");
        Ok(Some(()))
    })
    .await
}

/// Rules of the Roles and ClusterRoles for people, by kind and name.
async fn the_chart_gives_people_the_same_rights_as_the_local_cluster(stack: Stack) -> Result<()> {
    helm::ensure_programs(&stack)?;
    let client = stack.admin().await?;
    let of_people = |object: &&Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        ["Role", "ClusterRole", "ClusterRoleBinding"].contains(&kind) && [VIEWER, OPERATOR].contains(&name)
    };
    let rendered = helm::render(&stack, "karpenter", &["--values", &values("tutorial")])?;
    let mine: Vec<&Value> = rendered.iter().filter(of_people).collect();
    ensure!(mine.len() == 6, "{} objects: {mine:?}", mine.len());
    for object in mine {
        let there = integration::kubernetes::api_of(&client, object).await?;
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let there = serde_json::to_value(there.get(name).await?)?;
        for field in ["rules", "roleRef", "subjects"] {
            ensure!(object[field] == there[field], "{} {name}: {field}: {there}", object["kind"]);
        }
    }
    let without = ["--values", &values("tutorial"), "--set", "operator.enabled=false"];
    let left = helm::render(&stack, "karpenter", &without)?;
    ensure!(!left.iter().any(|object| of_people(&object)), "operator.enabled=false leaves rights behind");
    Ok(())
}
