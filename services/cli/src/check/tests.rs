//! The whole check, run by somebody with the chart's Role karpenter-viewer and no other right: against an API server on loopback that
//! answers by that Role's rules.

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use clap::Parser;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;

const RULES: &str = include_str!("../../../../charts/karpenter/files/people.json");
const NAMESPACE: &str = "kube-system";

/// A request as the API server authorizes it.
struct Wanted {
    verb: &'static str,
    group: String,
    namespace: Option<String>,
    resource: String,
    name: Option<String>,
}

impl Wanted {
    fn of(method: &Method, path: &str) -> Self {
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group = if parts[0] == "api" { "" } else { parts.remove(1) };
        let mut parts = parts.into_iter().skip(2).peekable();
        let namespace = parts.next_if_eq(&"namespaces").and_then(|_| parts.next());
        let resource = parts.next().unwrap_or_default();
        let name = parts.next();
        let sub = parts.next().map(|sub| format!("/{sub}")).unwrap_or_default();
        let verb = match (method, name) {
            (&Method::GET, Some(_)) => "get",
            (&Method::GET, None) => "list",
            _ => "create",
        };
        Self {
            verb,
            group: group.to_owned(),
            namespace: namespace.map(str::to_owned),
            resource: format!("{resource}{sub}"),
            name: name.map(str::to_owned),
        }
    }

    /// Whether a Role with these rules in [`NAMESPACE`] allows it.
    fn is_allowed(&self, rules: &Value) -> bool {
        let has = |list: &Value, wanted: &str| {
            list.as_array().is_some_and(|list| list.iter().any(|each| each == wanted || each == "*"))
        };
        let allows = |rule: &Value| {
            has(&rule["verbs"], self.verb)
                && has(&rule["apiGroups"], &self.group)
                && has(&rule["resources"], &self.resource)
                && (rule["resourceNames"].is_null()
                    || self.name.as_ref().is_some_and(|name| has(&rule["resourceNames"], name)))
        };
        self.namespace.as_deref() == Some(NAMESPACE)
            && rules.as_array().is_some_and(|all| all.iter().any(allows))
    }
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16(),
    });
    (code, status.to_string()).into_response()
}

/// One pod, on a node, for every list; nothing else exists.
async fn answer(request: Request) -> Response {
    let path = request.uri().path();
    if path == "/version" {
        let version = json!({
            "major": "1", "minor": "35", "gitVersion": "v1.35.4", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        });
        return version.to_string().into_response();
    }
    let wanted = Wanted::of(request.method(), path);
    let rules: Value = serde_json::from_str(RULES).unwrap();
    if !wanted.is_allowed(&rules["karpenter-viewer"]["person"]) {
        return failure(StatusCode::FORBIDDEN, "Forbidden");
    }
    match wanted.verb {
        "list" => {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}});
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]});
            list.to_string().into_response()
        }
        _ => failure(StatusCode::NOT_FOUND, "NotFound"),
    }
}

#[allow(clippy::disallowed_methods, reason = "it ends with the test")]
async fn api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: Args,
}

/// What the command finds with these further words.
async fn found(test: &str, words: &[&str]) -> Vec<Finding> {
    let kubeconfig: PathBuf =
        std::env::temp_dir().join(format!("karpenter-check-{test}-{}.json", std::process::id()));
    let server = format!("http://{}", api_server().await);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let file = kubeconfig.to_str().unwrap();
    let words = [&["check", "-n", NAMESPACE, "--kubeconfig", file], words].concat();
    let args = Typed::try_parse_from(words).unwrap().args;
    let findings = Box::pin(look(&args)).await.expect("it goes on");
    std::fs::remove_file(&kubeconfig).unwrap();
    findings
}

/// What each finding about a missing right says is missing.
fn missing(findings: &[Finding], verdict: Verdict) -> Vec<&str> {
    let of = findings.iter().filter(|finding| finding.verdict == verdict);
    of.filter_map(|finding| finding.detail.strip_prefix("not checked: you have no right to ")).collect()
}

#[tokio::test]
async fn a_viewer_learns_what_the_role_allows_and_which_rights_the_rest_needs() {
    let findings = found("self-test", &[]).await;
    assert_eq!(
        missing(&findings, Verdict::Note),
        [
            "get customresourcedefinitions.apiextensions.k8s.io in the cluster",
            "get nodes in the cluster",
            "get leases.coordination.k8s.io in namespace kube-system",
            "list deployments.apps in namespace kube-system",
            "list nodepools.karpenter.sh in the cluster",
            "list ec2nodeclasses.karpenter.k8s.aws in the cluster",
        ]
    );
    // Judged all the same: no service has published a replica, and none can be asked about AWS.
    let wrong: Vec<(&str, &str)> = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Wrong)
        .map(|finding| (finding.area, finding.subject.as_str()))
        .collect();
    let services = runtime::Service::ALL.map(|service| ("services", service.as_str()));
    let expected = [&services[..], &[("AWS", "prices"), ("AWS", "interruption queue")]].concat();
    assert_eq!(wrong, expected);
}

#[tokio::test]
async fn a_takeover_is_not_clear_while_something_could_not_be_read() {
    let findings = found("takeover", &["--before-takeover"]).await;
    assert_eq!(
        missing(&findings, Verdict::Wrong),
        [
            "list deployments.apps in namespace kube-system",
            "get customresourcedefinitions.apiextensions.k8s.io in the cluster",
        ]
    );
}
