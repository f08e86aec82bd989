//! A shadow installation beside one that acts, each in a namespace of its own: through scale-up, drift, an interruption, expiry,
//! garbage collection and a static pool that shrinks, the shadow decides along, and neither the API server nor AWS sees a change
//! of it.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration::workload::Workload;
use integration::{Service, Stack, Test, aws, eventually, rpc, test};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::removal_scene::Scene;

/// As the audit policy of the local cluster knows it: the bodies of its requests are recorded.
const NAMESPACE: &str = "karpenter-shadow";
const ACTING: &str = "kube-system";
const ORDER: [&str; 5] =
    ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
const GATE: &str = "--feature-gates=StaticCapacity=true";
/// So that garbage is looked for several times while a test runs.
const COLLECT_OFTEN: &str = "--garbage-collection-interval=3s";

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("shadow", alone, a_shadow_beside_an_installation_that_acts_changes_nothing)]
}

fn flags(service: &str) -> &'static [&'static str] {
    if service == "termination" { &[GATE, COLLECT_OFTEN] } else { &[GATE] }
}

async fn a_shadow_beside_an_installation_that_acts_changes_nothing(stack: Stack) -> Result<()> {
    let client = stack.admin().await?;
    let recorded_before = recorded(&stack)?.len();
    accounts(&client).await?;
    aws::delete(&stack, "/calls")?;
    let acting: Vec<Service> =
        ORDER.iter().map(|name| Service::start(&stack, name, 1, flags(name))).collect::<Result<_>>()?;
    let mut shadows = Vec::new();
    for name in ORDER {
        shadows.push(start_shadow(&stack, &client, name).await?);
    }
    let outcome = a_day(&stack).await;
    let report = report(&stack, NAMESPACE);
    let refusal = report_of(&stack, ACTING)?;
    for service in shadows.iter().rev().chain(acting.iter().rev()) {
        service.stop(&stack)?;
    }
    outcome?;

    let events = recorded(&stack)?.split_off(recorded_before);
    let stored: Vec<String> = events.iter().filter(|event| is_stored(event)).map(told).collect();
    ensure!(stored.is_empty(), "the shadow stored:\n{}", stored.join("\n"));
    // It did decide: whichever of two is faster, both try to change the same objects.
    for (service, resource) in
        [("provisioner", "nodeclaims"), ("disruption", "nodeclaims"), ("termination", "nodes")]
    {
        let tried = |event: &&Value| {
            let user = event["user"]["username"].as_str().unwrap_or_default();
            user.ends_with(service) && event["objectRef"]["resource"] == resource
        };
        ensure!(
            events.iter().any(|event| tried(&event)),
            "the shadow of {service} never tried to change {resource}"
        );
    }
    let calls = aws::get(&stack, "/calls?limit=0")?["byAccessKey"].clone();
    for name in ORDER {
        let of = |key: &str| calls[key].as_object().cloned().unwrap_or_default();
        for call in of(&format!("shadow-{name}")).keys() {
            let action = call.split(':').nth(1).unwrap_or_default();
            let reads = ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb));
            ensure!(reads, "the shadow of {name} called {call}");
        }
    }
    ensure!(!calls["shadow-provisioner"].is_null(), "the shadow asked AWS nothing: {calls}");
    for (service, call) in [("provisioner", "ec2:CreateFleet"), ("termination", "ec2:TerminateInstances")] {
        ensure!(calls[service][call].as_u64() > Some(0), "{service} never called {call}: {calls}");
    }

    let report = report?;
    let decisions = report["decisions"].as_array().cloned().unwrap_or_default();
    // The claims of a static pool leave the instance type to EC2, so their price is not known.
    let is_priced = |each: &&Value| each["decision"] == "launch" && each["instanceTypes"].as_u64() > Some(0);
    let launch = decisions.iter().find(is_priced);
    let launch = launch.with_context(|| format!("no launch among {report:#}"))?;
    ensure!(launch["nodes"].as_u64() > Some(0), "{launch}");
    ensure!(launch["changePerHour"].as_f64() > Some(0.0), "a launch has a price: {launch}");
    let happened = report["happened"].as_array().cloned().unwrap_or_default();
    for event in ["created", "deleted"] {
        ensure!(happened.iter().any(|each| each["event"] == event), "nothing was {event} in {report:#}");
    }
    ensure!(refusal.contains("does not run in shadow mode"), "of an installation that acts: {refusal}");
    remove_accounts(&client).await
}

/// What a production cluster goes through, carried out by the services that act.
async fn a_day(stack: &Stack) -> Result<()> {
    let workload = Workload::new(stack, "beside", json!({}), json!({})).await?;
    workload.deploy("app", 3, "1", json!({})).await?;
    workload.running("app", 3).await?;
    let first = workload.claims().await?;

    let pools: Api<api::NodePool> = Api::all(workload.client.clone());
    let drift = json!({"spec": {"template": {"metadata": {"labels": {"team": "new"}}}}});
    pools.patch(&workload.name, &PatchParams::default(), &Patch::Merge(drift)).await?;
    gone(&workload, &first, "drifted claims to be replaced").await?;
    workload.running("app", 3).await?;

    let claims = workload.claims().await?;
    let id =
        claims.first().and_then(|claim| claim.status.as_ref()?.provider_id.clone()).context("an instance")?;
    let instance = id.rsplit('/').next().context("an instance")?;
    aws::put(stack, "/interrupt", &json!({"ids": [instance], "kind": "spot", "terminate": false}))?;
    gone(&workload, &claims[..1], "the interrupted claim to go").await?;

    let fixed = Workload::new(
        stack,
        "beside-static",
        json!({"replicas": 2, "limits": {"nodes": "3"}, "disruption": null}),
        json!({}),
    )
    .await?;
    let count = async |wanted: usize| {
        eventually(&format!("{wanted} nodes of the static pool"), || async {
            let claims = fixed.claims().await?;
            let staying = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count();
            Ok((staying == wanted && fixed.nodes().await?.len() == wanted).then_some(()))
        })
        .await
    };
    count(2).await?;
    let fewer = Patch::Merge(json!({"spec": {"replicas": 1}}));
    pools.patch(&fixed.name, &PatchParams::default(), &fewer).await?;
    count(1).await?;
    fixed.remove().await?;

    expiry(stack).await?;
    garbage(stack).await?;
    workload.remove().await
}

/// Expiry ends a node whatever budgets say.
async fn expiry(stack: &Stack) -> Result<()> {
    let pool = json!({
        "template": {"spec": {"expireAfter": "20s"}},
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
    });
    let expiring = Workload::new(stack, "beside-expiry", pool, json!({})).await?;
    expiring.deploy("app", 1, "1", json!({})).await?;
    expiring.running("app", 1).await?;
    gone(&expiring, &expiring.claims().await?, "the expired claim to be replaced").await?;
    expiring.remove().await
}

/// An instance with our tags, whose claim is gone, is ended; one without them is nobody's garbage.
async fn garbage(stack: &Stack) -> Result<()> {
    let scene = Scene::new(stack.clone(), "beside-garbage").await?;
    let (ours, foreign) = (scene.launch("nobody", true)?, scene.launch("nobody", false)?);
    eventually("the instance without a claim to be ended", || async {
        Ok((!scene.instance_lives(&ours)?).then_some(()))
    })
    .await?;
    ensure!(scene.instance_lives(&foreign)?, "an instance without our tags was ended");
    aws::put(stack, "/instance", &json!({"id": foreign, "state": "terminated"})).map(drop)
}

async fn gone(workload: &Workload, claims: &[api::NodeClaim], what: &str) -> Result<()> {
    let names: Vec<String> = claims.iter().map(|claim| claim.name_any()).collect();
    eventually(what, || async {
        let left = workload.claims().await?;
        Ok((!left.iter().any(|claim| names.contains(&claim.name_any()))).then_some(()))
    })
    .await
}

/// The accounts of a second installation, with the rights of the first.
async fn accounts(client: &Client) -> Result<()> {
    let made = PostParams::default();
    let named = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let space = Namespace { metadata: named(NAMESPACE), ..Namespace::default() };
    Api::<Namespace>::all(client.clone()).create(&made, &space).await?;
    let (own, theirs): (Api<Role>, Api<Role>) =
        (Api::namespaced(client.clone(), NAMESPACE), Api::namespaced(client.clone(), ACTING));
    for service in runtime::Service::ALL {
        let name = service.service_account();
        let account = ServiceAccount { metadata: named(&name), ..ServiceAccount::default() };
        Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE).create(&made, &account).await?;
        let subjects = Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.clone(),
            namespace: Some(NAMESPACE.to_owned()),
            ..Subject::default()
        }]);
        let role_ref = |kind: &str, name: &str| RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let binding = ClusterRoleBinding {
            metadata: named(&format!("{NAMESPACE}-{service}")),
            role_ref: role_ref("ClusterRole", &name),
            subjects: subjects.clone(),
        };
        Api::<ClusterRoleBinding>::all(client.clone()).create(&made, &binding).await?;
        let role = theirs.get(&name).await?;
        own.create(&made, &Role { metadata: named(&name), ..role }).await?;
        let mut bound = vec![(NAMESPACE, name.clone(), name.clone())];
        let dns = format!("{name}-dns");
        if theirs.get_opt(&dns).await?.is_some() {
            bound.push((ACTING, format!("{NAMESPACE}-{dns}"), dns));
        }
        for (namespace, own_name, role) in bound {
            let binding = RoleBinding {
                metadata: named(&own_name),
                role_ref: role_ref("Role", &role),
                subjects: subjects.clone(),
            };
            Api::<RoleBinding>::namespaced(client.clone(), namespace).create(&made, &binding).await?;
        }
    }
    // Somebody who asks: the command line takes its token from this account.
    let viewer = ServiceAccount { metadata: named("karpenter-viewer"), ..ServiceAccount::default() };
    Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE).create(&made, &viewer).await?;
    let reads = ClusterRoleBinding {
        metadata: named(&format!("{NAMESPACE}-viewer")),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: "karpenter-viewer".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "karpenter-viewer".to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    };
    Api::<ClusterRoleBinding>::all(client.clone()).create(&made, &reads).await?;
    Ok(())
}

async fn remove_accounts(client: &Client) -> Result<()> {
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let names = runtime::Service::ALL.map(|service| service.to_string());
    for name in names.iter().map(String::as_str).chain(["viewer"]) {
        bindings.delete(&format!("{NAMESPACE}-{name}"), &DeleteParams::default()).await?;
    }
    Api::<Namespace>::all(client.clone()).delete(NAMESPACE, &DeleteParams::default()).await?;
    Ok(())
}

/// With the account, the tokens and the AWS credentials of the second installation.
async fn start_shadow(stack: &Stack, client: &Client, name: &str) -> Result<Service> {
    let home = stack.dir().join("shadow").join(name);
    std::fs::create_dir_all(home.join("rpc"))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let account = format!("karpenter-{name}");
    let token = async |audiences: Vec<String>| -> Result<String> {
        let spec = TokenRequestSpec { audiences, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let issued = accounts.create_token_request(&account, &PostParams::default(), &request).await?;
        Ok(issued.status.context("a token was issued")?.token)
    };
    for callee in runtime::Service::ALL {
        std::fs::write(home.join("rpc").join(callee.as_str()), token(vec![callee.audience()]).await?)?;
    }
    // The administrator's, with another user; the local cluster writes them as JSON.
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(stack.var("KUBECONFIG")?)?)?;
    config["users"][0]["user"] = json!({"token": token(Vec::new()).await?});
    let kubeconfig = home.join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string())?;
    let variables = [
        format!("KUBECONFIG={}", kubeconfig.display()),
        format!("RPC_TOKEN_DIR={}", home.join("rpc").display()),
        format!("SYSTEM_NAMESPACE={NAMESPACE}"),
        format!("AWS_ACCESS_KEY_ID=shadow-{name}"),
        "SHADOW_MODE=true".to_owned(),
    ];
    let mut options: Vec<String> = variables.iter().map(|pair| format!("--env={pair}")).collect();
    options.extend(flags(name).iter().map(|flag| format!("--arg={flag}")));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Service::start_with(stack, name, 2, &options)
}

/// `kubectl karpenter shadow` of the installation in a namespace: what it prints, and what it complains about.
fn kubectl(stack: &Stack, namespace: &str) -> Result<(bool, String, String)> {
    let mut command = Command::new(rpc::binary("provisioner")?.with_file_name("kubectl-karpenter"));
    command.args(["shadow", "-n", namespace, "-o", "json"]).env("KUBECONFIG", stack.var("KUBECONFIG")?);
    for service in runtime::Service::ALL {
        command.env_remove(format!("GRPC_{}", service.as_str().to_uppercase().replace('-', "_")));
    }
    let output = command.stdin(Stdio::null()).output().context("run it")?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((output.status.success(), text(output.stdout), text(output.stderr)))
}

fn report(stack: &Stack, namespace: &str) -> Result<Value> {
    let (fine, printed, complaint) = kubectl(stack, namespace)?;
    ensure!(fine, "{complaint}");
    Ok(serde_json::from_str(&printed)?)
}

fn report_of(stack: &Stack, namespace: &str) -> Result<String> {
    let (fine, printed, complaint) = kubectl(stack, namespace)?;
    ensure!(!fine, "an installation that acts told: {printed}");
    Ok(complaint)
}

/// Every request of the shadow's accounts that is no read, as the API server recorded it.
fn recorded(stack: &Stack) -> Result<Vec<Value>> {
    let file = stack.dir().join("log/audit.log");
    let lines =
        BufReader::new(std::fs::File::open(&file).with_context(|| format!("open {}", file.display()))?);
    let mut events = Vec::new();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(&line?)?;
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let of_shadow = user.starts_with(&format!("system:serviceaccount:{NAMESPACE}:"));
        let reads = ["get", "list", "watch"].iter().any(|verb| event["verb"] == *verb);
        if of_shadow && !reads {
            events.push(event);
        }
    }
    Ok(events)
}

/// Whether the API server kept it: no dry run, no question, and nothing that a shadow owns.
fn is_stored(event: &Value) -> bool {
    let object = &event["objectRef"];
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let question = ["tokenreviews", "subjectaccessreviews"].contains(&text("resource"));
    let own = text("namespace") == NAMESPACE
        && match text("resource") {
            "leases" | "configmaps" => text("name").starts_with("karpenter-"),
            _ => false,
        };
    let dry_run = match event["verb"].as_str() {
        // Options in the body count, and those in the query do not.
        Some("delete") => event["requestObject"]["dryRun"] == json!(["All"]),
        Some("deletecollection") => false,
        _ => event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun=All")),
    };
    !(question || own || dry_run)
}

fn told(event: &Value) -> String {
    format!(
        "{} {} {}: {}",
        event["user"]["username"], event["verb"], event["requestURI"], event["requestObject"]
    )
}
