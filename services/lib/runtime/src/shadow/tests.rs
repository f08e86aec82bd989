//! What becomes of each kind of request in shadow mode, query and body.

use http_body_util::BodyExt as _;
use kube::{
    Api, Client,
    api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions},
};

use super::*;

fn shadow(service: Service) -> Shadow {
    Shadow {
        namespace: "kube-system".to_owned(),
        lease: service.lease("karpenter"),
        trust: service.trust_config_map(),
        keeps_caches: service == Service::PricingCache,
        record: Record::default(),
    }
}

fn request(method: &Method, uri: &str, body: &str) -> Request<Body> {
    let body = Body::from(body.as_bytes().to_vec());
    Request::builder().method(method).uri(uri).body(body).unwrap()
}

/// Address and body as sent; the code of the answer where nothing is sent.
async fn outcome(method: Method, uri: &str, body: &str) -> Result<(String, Value), u16> {
    match shadow(Service::Provisioner).restrain(request(&method, uri, body)) {
        Ok(request) => {
            let uri = request.uri().to_string();
            let bytes = request.into_body().collect_bytes().await.unwrap();
            Ok((uri, serde_json::from_slice(&bytes).unwrap_or_default()))
        }
        Err((code, _)) => Err(code.as_u16()),
    }
}

#[tokio::test]
async fn creations_patches_and_updates_become_dry_runs_by_their_query() {
    let object = r#"{"metadata":{"name":"a"}}"#;
    for (method, uri, expected) in [
        (Method::POST, "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodeclaims?dryRun=All"),
        (Method::POST, "/api/v1/namespaces/a/events?", "/api/v1/namespaces/a/events?dryRun=All"),
        (Method::PATCH, "/api/v1/nodes/a?fieldManager=x", "/api/v1/nodes/a?fieldManager=x&dryRun=All"),
        (Method::PATCH, "/api/v1/nodes/a?dryRun=&force=true", "/api/v1/nodes/a?force=true&dryRun=All"),
        (Method::PUT, "/api/v1/nodes/a/status", "/api/v1/nodes/a/status?dryRun=All"),
        (Method::POST, "https://host:6443/api/v1/nodes", "https://host:6443/api/v1/nodes?dryRun=All"),
    ] {
        let (sent, body) = outcome(method, uri, object).await.unwrap();
        assert_eq!(sent, expected);
        assert_eq!(body, json!({"metadata": {"name": "a"}}), "{uri}");
    }
}

#[tokio::test]
async fn a_deletion_becomes_a_dry_run_by_the_options_in_its_body() {
    let uri = "/apis/karpenter.sh/v1/nodeclaims/a";
    for (body, expected) in [
        ("", json!({"dryRun": ["All"]})),
        ("{}", json!({"dryRun": ["All"]})),
        (r#"{"dryRun":[]}"#, json!({"dryRun": ["All"]})),
        (
            r#"{"gracePeriodSeconds":0,"preconditions":{"uid":"u"}}"#,
            json!({"dryRun": ["All"], "gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}),
        ),
    ] {
        assert_eq!(outcome(Method::DELETE, uri, body).await, Ok((uri.to_owned(), expected)));
    }
    for body in ["[]", "no json", "\u{1}protobuf"] {
        assert_eq!(outcome(Method::DELETE, uri, body).await, Err(403), "{body:?}");
    }
}

#[tokio::test]
async fn what_is_not_known_to_be_harmless_is_not_sent() {
    for (method, uri, code) in [
        (Method::POST, "/api/v1/namespaces/a/pods/b/eviction", 201),
        (Method::POST, "/api/v1/namespaces/a/pods/b/binding", 403),
        (Method::POST, "/api/v1/namespaces/a/serviceaccounts/b/token", 403),
        (Method::PUT, "/api/v1/namespaces/a/finalize", 403),
        (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/b/scale", 403),
        (Method::GET, "/api/v1/namespaces/a/pods/b/exec?command=rm", 403),
        (Method::DELETE, "/api/v1/nodes", 403),
        (Method::DELETE, "/api/v1/nodes?labelSelector=a", 403),
        (Method::from_bytes(b"PROPFIND").unwrap(), "/api/v1/nodes/a", 403),
        (Method::POST, "/shutdown", 403),
    ] {
        assert_eq!(outcome(method, uri, "{}").await, Err(code), "{uri}");
    }
}

#[tokio::test]
async fn reads_and_what_a_service_owns_are_left_alone() {
    let lease = r#"{"metadata":{"name":"karpenter-provisioner"}}"#;
    let own = "/api/v1/namespaces/kube-system/configmaps/karpenter-provisioner-trust?force=true";
    for (method, uri, body) in [
        (Method::GET, "/api/v1/nodes?watch=1", ""),
        (Method::GET, "/version", ""),
        (Method::POST, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease),
        (
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-provisioner",
            lease,
        ),
        (Method::PATCH, own, "{}"),
        (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", "{}"),
        (Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews", "{}"),
    ] {
        assert_eq!(outcome(method, uri, body).await.map(|(sent, _)| sent), Ok(uri.to_owned()));
    }
}

#[test]
fn leases_and_config_maps_of_others_are_not_owned() {
    let verdict = |service: Service, method: Method, path: &str, name: &str| {
        shadow(service).verdict(&method, &about(path), name)
    };
    let (provisioner, cache) = (Service::Provisioner, Service::PricingCache);
    let map = |namespace: &str, name: &str| format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";
    assert_eq!(verdict(provisioner, Method::PUT, lease, "karpenter-leader-election"), Verdict::DryRun);
    let prices = map("kube-system", "karpenter-prices");
    assert_eq!(verdict(provisioner, Method::PATCH, &prices, "karpenter-prices"), Verdict::DryRun);
    assert_eq!(verdict(cache, Method::PATCH, &prices, "karpenter-prices"), Verdict::Send);
    assert_eq!(verdict(cache, Method::DELETE, &prices, "karpenter-prices"), Verdict::DryRun);
    let elsewhere = map("default", "karpenter-prices");
    assert_eq!(verdict(cache, Method::PATCH, &elsewhere, "karpenter-prices"), Verdict::DryRun);
}

#[tokio::test]
async fn requests_as_the_client_makes_them_are_restrained() {
    use k8s_openapi::api::core::v1::{Node, Pod};
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = seen.clone();
    let server = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let target = format!("{} {}", request.method(), request.uri());
            let bytes = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
            let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            log.lock().unwrap().push((target, body));
            let node = json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}).to_string();
            let body = Body::from(node.into_bytes()).map_err(Into::into);
            Ok::<_, std::io::Error>(Response::new(Box::new(body) as Box<DynBody>))
        }
    });
    let client = Client::new(shadow(Service::Termination).layer(server), "default");
    let (nodes, pods): (Api<Node>, Api<Pod>) =
        (Api::all(client.clone()), Api::namespaced(client.clone(), "default"));
    let exactly = Preconditions { uid: Some("u".to_owned()), resource_version: None };
    nodes.delete("a", &DeleteParams::default()).await.unwrap();
    nodes.delete("a", &DeleteParams::default().preconditions(exactly)).await.unwrap();
    nodes.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {}}))).await.unwrap();
    nodes.create(&PostParams::default(), &Node::default()).await.unwrap();
    pods.evict("b", &EvictParams::default()).await.expect("answered without being sent");
    nodes.delete_collection(&DeleteParams::default(), &Default::default()).await.expect_err("not sent");

    let seen = seen.lock().unwrap().clone();
    let targets: Vec<&str> = seen.iter().map(|(target, _)| target.as_str()).collect();
    assert_eq!(
        targets,
        [
            "DELETE /api/v1/nodes/a?",
            "DELETE /api/v1/nodes/a?",
            "PATCH /api/v1/nodes/a?dryRun=All",
            "POST /api/v1/nodes?dryRun=All"
        ]
    );
    assert_eq!(seen[0].1["dryRun"], json!(["All"]));
    assert_eq!(seen[1].1["dryRun"], json!(["All"]));
    assert_eq!(seen[1].1["preconditions"]["uid"], "u");
}
