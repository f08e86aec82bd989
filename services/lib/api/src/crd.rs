//! The five CustomResourceDefinitions and the Helm chart that carries them, as text. `crdgen` writes the chart; a test
//! compares it, so that types and chart cannot part.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};

/// All definitions, by plural name.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = vec![
        CapacityBuffer::crd(),
        EC2NodeClass::crd(),
        NodeClaim::crd(),
        NodeOverlay::crd(),
        NodePool::crd(),
    ];
    for version in all.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        // schemars' title for a root schema only repeats the kind.
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            schema.title = None;
        }
    }
    all
}

/// Files of `charts/karpenter-crd`: path within the chart, and content.
///
/// The definitions are plain files, so that `kubectl apply -f` takes them and the chart `karpenter` has them as its `crds/`, which
/// Helm installs and never upgrades. The one template of `karpenter-crd` renders them with annotations, and upgrades them.
pub fn chart() -> Result<Vec<(String, String)>, serde_saphyr::ser::Error> {
    let mut files = vec![("Chart.yaml".to_owned(), chart_yaml())];
    for crd in all() {
        let mut definition = serde_json::to_value(&crd).expect("a definition is plain data");
        without_fractions(&mut definition);
        let yaml = serde_saphyr::to_string(&definition)?;
        let header = "# Written by crdgen from services/lib/api; change the Rust types instead.\n";
        files.push((format!("files/{}.yaml", crd.spec.names.plural), format!("{header}{yaml}")));
    }
    Ok(files)
}

/// Bounds are floats in Kubernetes' own types; `minimum: 1` reads better than `1.0`, and means the same.
fn without_fractions(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0) {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_fractions),
        Value::Object(fields) => fields.values_mut().for_each(without_fractions),
        _ => {}
    }
}

fn chart_yaml() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "# Written by crdgen from services/lib/api.\n\
         apiVersion: v2\n\
         name: karpenter-crd\n\
         description: The custom resources of the Karpenter node autoscaler, upgraded with the release.\n\
         type: application\n\
         version: {version}\n\
         appVersion: {version}\n"
    )
}
