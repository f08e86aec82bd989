//! The API server's own verdict on manifests: what Karpenter's users write is accepted unchanged, what breaks a rule is
//! rejected with the rule's meaning. The manifests are data of the `api` crate, one file a rule.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use api::NodePool;
use integration::kubernetes::{api_of, documents};
use integration::{Stack, Test, test};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("crds", manifests_written_for_karpenter_are_accepted),
        test!("crds", each_rule_rejects_what_breaks_it),
        test!("crds", defaults_are_filled_in_by_the_api_server),
        test!("crds", kubectl_finds_the_kinds_by_short_name_and_category),
        test!("crds", unknown_fields_survive_a_read_and_a_write),
        test!("crds", replicas_of_a_static_pool_can_be_scaled),
    ]
}

fn manifests(kind: &str) -> Result<Vec<(String, String)>> {
    let directory: PathBuf = integration::stack::root().join("services/lib/api/tests/manifests").join(kind);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(|| format!("read {}", directory.display()))? {
        let path = entry?.path();
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        files.push((name, std::fs::read_to_string(&path)?));
    }
    files.sort();
    ensure!(!files.is_empty(), "no manifests in {}", directory.display());
    Ok(files)
}

fn object(value: &Value) -> Result<DynamicObject> {
    serde_json::from_value(value.clone()).context("a Kubernetes object")
}

/// Creates the object, or replaces the one of that name: what `kubectl apply` amounts to here.
async fn store(client: &Client, value: &Value) -> Result<DynamicObject, anyhow::Error> {
    let api = api_of(client, value).await?;
    let mut wanted = object(value)?;
    match api.get_opt(&wanted.name_any()).await? {
        None => Ok(api.create(&PostParams::default(), &wanted).await?),
        Some(found) => {
            wanted.metadata.resource_version = found.metadata.resource_version;
            Ok(api.replace(&wanted.name_any(), &PostParams::default(), &wanted).await?)
        }
    }
}

async fn remove(client: &Client, value: &Value) -> Result<()> {
    let api = api_of(client, value).await?;
    let name = object(value)?.name_any();
    if api.get_opt(&name).await?.is_some() {
        api.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn manifests_written_for_karpenter_are_accepted(stack: Stack) -> Result<()> {
    let client = stack.admin().await?;
    for (name, text) in manifests("valid")? {
        let all = documents(&text).with_context(|| name.clone())?;
        for document in &all {
            store(&client, document).await.with_context(|| format!("{name} was not accepted"))?;
        }
        for document in &all {
            remove(&client, document).await?;
        }
    }
    Ok(())
}

async fn each_rule_rejects_what_breaks_it(stack: Stack) -> Result<()> {
    let client = stack.admin().await?;
    let mut wrong = Vec::new();
    for (name, text) in manifests("invalid")? {
        if let Err(error) = is_rejected(&client, &text).await {
            wrong.push(format!("{name}: {error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{} rules do not hold:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// The header says what the server must say, and whether the last document is an update of the first (`# update-of`), its
/// status (`# status-of`), or a new object.
async fn is_rejected(client: &Client, text: &str) -> Result<()> {
    let expected =
        text.lines().find_map(|line| line.strip_prefix("# rejected: ")).context("no header")?.trim();
    let mut all = documents(text)?;
    let last = all.pop().context("no document")?;
    for earlier in &all {
        store(client, earlier).await.context("the first document must be accepted")?;
    }
    let outcome = if text.contains("# status-of:") {
        let api = api_of(client, &last).await?;
        let name = object(&last)?.name_any();
        let patch = Patch::Merge(json!({"status": last["status"]}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.map_err(anyhow::Error::from)
    } else {
        store(client, &last).await
    };
    for earlier in &all {
        remove(client, earlier).await?;
    }
    match outcome {
        Ok(_) => {
            remove(client, &last).await?;
            bail!("accepted, expected {expected:?}")
        }
        Err(error) => {
            let said = format!("{error:#}");
            ensure!(said.contains(expected), "rejected with {said:?}, expected {expected:?}");
            Ok(())
        }
    }
}

fn pool(name: &str, spec: Value) -> Result<NodePool> {
    let mut whole = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole["spec"][key] = value.clone();
    }
    Ok(serde_json::from_value(whole)?)
}

async fn defaults_are_filled_in_by_the_api_server(stack: Stack) -> Result<()> {
    let api: Api<NodePool> = Api::all(stack.admin().await?);
    let name = "crds-defaults";
    let stored = api.create(&PostParams::default(), &pool(name, json!({}))?).await?;
    let seen = serde_json::to_value(&stored)?;
    api.delete(name, &DeleteParams::default()).await?;
    assert_eq!(seen["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(seen["spec"]["disruption"]["consolidateAfter"], "0s");
    assert_eq!(seen["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");
    assert_eq!(seen["spec"]["disruption"]["budgets"], json!([{"nodes": "10%"}]));
    Ok(())
}

async fn kubectl_finds_the_kinds_by_short_name_and_category(stack: Stack) -> Result<()> {
    let kubeconfig = stack.var("KUBECONFIG")?;
    for (word, expected) in [
        ("ec2nc", "No resources found"),
        ("overlays", "No resources found"),
        ("cb", "No resources found"),
        ("nodepools.karpenter.sh", "No resources found"),
    ] {
        let output = std::process::Command::new("kubectl")
            .args(["--kubeconfig", kubeconfig, "get", word, "-A", "--ignore-not-found=false"])
            .output()
            .context("run kubectl")?;
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "kubectl get {word}: {said}");
        ensure!(said.contains(expected) || said.contains("NAME"), "kubectl get {word}: {said}");
    }
    let category = std::process::Command::new("kubectl")
        .args(["--kubeconfig", kubeconfig, "api-resources", "--categories", "karpenter", "-o", "name"])
        .output()?;
    let listed = String::from_utf8(category.stdout)?;
    for kind in [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
    ] {
        ensure!(listed.contains(kind), "category karpenter lists {listed}");
    }
    Ok(())
}

/// A later version's field reaches us only where the server stores it: annotations of any shape do, and so does the object as
/// our types write it back.
async fn unknown_fields_survive_a_read_and_a_write(stack: Stack) -> Result<()> {
    let future = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "future"},
        "spec": {
            "newKnob": {"depth": 3},
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "team", "operator": "Exists", "newHint": true}],
                "newSwitch": "on",
            }},
        },
    });
    let typed: NodePool = serde_json::from_value(future.clone())?;
    let written = serde_json::to_value(&typed)?;
    assert_eq!(written["spec"]["newKnob"], json!({"depth": 3}));
    assert_eq!(written["spec"]["template"]["spec"]["newSwitch"], "on");
    assert_eq!(written["spec"]["template"]["spec"]["requirements"][0]["newHint"], true);

    let api: Api<NodePool> = Api::all(stack.admin().await?);
    let mut stored =
        api.create(&PostParams::default(), &pool("crds-read-write", json!({"weight": 7}))?).await?;
    stored.annotations_mut().insert("example.com/note".to_owned(), "kept".to_owned());
    let again = api.replace("crds-read-write", &PostParams::default(), &stored).await?;
    api.delete("crds-read-write", &DeleteParams::default()).await?;
    assert_eq!(serde_json::to_value(&again.spec)?, serde_json::to_value(&stored.spec)?);
    Ok(())
}

async fn replicas_of_a_static_pool_can_be_scaled(stack: Stack) -> Result<()> {
    let api: Api<NodePool> = Api::all(stack.admin().await?);
    let name = "crds-scaled";
    api.create(&PostParams::default(), &pool(name, json!({"replicas": 1}))?).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale = api.patch_scale(name, &PatchParams::default(), &patch).await?;
    let seen = serde_json::to_value(api.get(name).await?)?;
    api.delete(name, &DeleteParams::default()).await?;
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(4));
    assert_eq!(seen["spec"]["replicas"], 4);
    Ok(())
}
