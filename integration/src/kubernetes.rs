//! Kubernetes objects as data: namespaces of tests, manifests applied and looked at without types of their own.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{GroupVersionKind, ObjectMeta, TypeMeta};
use kube::discovery::{ApiCapabilities, ApiResource, Scope};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::wait::eventually;

/// A fresh namespace for one test; the name starts with `prefix`.
pub async fn namespace(client: &Client, prefix: &str) -> Result<String> {
    let api: Api<Namespace> = Api::all(client.clone());
    let wanted = Namespace {
        metadata: ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let name = api.create(&PostParams::default(), &wanted).await?.name_any();
    // Pods are refused until the controller manager has made the namespace's default account.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
    eventually("the namespace's default account", || async { Ok(accounts.get_opt("default").await?) })
        .await?;
    Ok(name)
}

/// The API an object of any kind belongs to, as the server describes it.
pub async fn api_of(client: &Client, object: &Value) -> Result<Api<DynamicObject>> {
    let types: TypeMeta = serde_json::from_value(object.clone()).context("apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities): (ApiResource, ApiCapabilities) =
        kube::discovery::pinned_kind(client, &kind).await.with_context(|| format!("look up {kind:?}"))?;
    Ok(match (&capabilities.scope, object["metadata"]["namespace"].as_str()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, namespace) => {
            Api::namespaced_with(client.clone(), namespace.unwrap_or("default"), &resource)
        }
    })
}

/// Every YAML document of a text, as JSON.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}
