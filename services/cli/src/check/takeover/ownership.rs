//! Who owns the CRDs. Helm changes what belongs to another release, or to none, only with `--take-ownership`; a release that stops
//! listing a CRD deletes it, and with it every NodeClaim; a GitOps controller writes its own version back.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;

use super::super::definitions::upgrade;
use super::super::finding::Finding;
use super::{AREA, RELEASE};

/// The release of this product's CRDs, and the chart of that name.
const OURS: &str = "karpenter-crd";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Marks of controllers that write back what their source says.
const GITOPS: [(&str, &str); 4] = [
    ("argocd.argoproj.io/instance", "Argo CD application"),
    ("argocd.argoproj.io/tracking-id", "Argo CD application"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"),
    ("helm.toolkit.fluxcd.io/name", "Flux HelmRelease"),
];

pub(super) fn judge(namespace: &str, name: &str, found: &CustomResourceDefinition) -> Finding {
    let stored = found.status.iter().flat_map(|status| status.stored_versions.iter().flatten());
    let wanted =
        found.spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone());
    let old: Vec<&str> =
        stored.filter(|version| Some(*version) != wanted.as_ref()).map(String::as_str).collect();
    if !old.is_empty() {
        let detail = format!("objects may still be stored as {}", old.join(", "));
        return Finding::wrong(AREA, name, detail, stored_again(name, wanted.as_deref().unwrap_or("v1")));
    }
    if found.spec.conversion.as_ref().is_some_and(|conversion| conversion.webhook.is_some()) {
        let detail = "converts with a webhook that ends with Karpenter";
        return Finding::wrong(AREA, name, detail, upgrade(namespace));
    }
    if let Some((kind, source)) = source(found) {
        let detail = format!("is written by {kind} {source}, which would write Karpenter's version back");
        let fix = format!("take the CRDs out of {source} without deleting them, then {}", upgrade(namespace));
        return Finding::wrong(AREA, name, detail, fix);
    }
    judge_release(namespace, name, found)
}

/// As Helm decides it: the label and both annotations count.
fn judge_release(namespace: &str, name: &str, found: &CustomResourceDefinition) -> Finding {
    let annotation = |key: &str| found.annotations().get(key).map(String::as_str);
    let is_labelled = found.labels().get(MANAGED_BY).is_some_and(|by| by == "Helm");
    match (annotation(RELEASE), annotation(RELEASE_NAMESPACE)) {
        (Some(OURS), Some(place)) if is_labelled && place == namespace => {
            Finding::good(AREA, name, format!("belongs to Helm release {OURS}"))
        }
        (Some(OURS), Some(place)) if is_labelled => {
            let detail = format!("belongs to Helm release {OURS} in namespace {place}: upgrade it there");
            Finding::note(AREA, name, detail, upgrade(place))
        }
        (Some(other), place) if is_labelled && other != OURS => {
            let place = place.unwrap_or("unknown");
            let detail = format!(
                "belongs to Helm release {other} in namespace {place}: when that release no longer lists it, Helm deletes it with every object of it"
            );
            let fix = format!("{}, and do not uninstall {other} afterwards", upgrade(namespace));
            Finding::wrong(AREA, name, detail, fix)
        }
        _ => Finding::note(AREA, name, "belongs to no Helm release", upgrade(namespace)),
    }
}

/// The GitOps controller that applies the definition, and the object that tells it to.
fn source(found: &CustomResourceDefinition) -> Option<(&'static str, String)> {
    GITOPS.into_iter().find_map(|(key, kind)| {
        let value = found.labels().get(key).or_else(|| found.annotations().get(key))?;
        // A tracking id goes on with the object it is on.
        Some((kind, value.split(':').next().unwrap_or(value).to_owned()))
    })
}

/// Every object is written once, in the stored version; then the list of versions says so.
fn stored_again(name: &str, version: &str) -> String {
    format!(
        "kubectl get {name} -A -o yaml | kubectl replace -f - && kubectl patch crd {name} --subresource=status --type=merge -p '{{\"status\":{{\"storedVersions\":[\"{version}\"]}}}}'"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::finding::Verdict;
    use super::*;

    const NAMESPACE: &str = "kube-system";

    /// The definition of NodePools with metadata as clusters have it.
    fn recorded(labels: Value, annotations: Value) -> CustomResourceDefinition {
        let all = api::crd::all();
        let mut crd = all.into_iter().find(|crd| crd.spec.names.plural == "nodepools").unwrap();
        crd.metadata.labels = serde_json::from_value(labels).unwrap();
        crd.metadata.annotations = serde_json::from_value(annotations).unwrap();
        crd
    }

    fn helm(release: &str, namespace: &str) -> CustomResourceDefinition {
        recorded(
            json!({"app.kubernetes.io/managed-by": "Helm"}),
            json!({
                "controller-gen.kubebuilder.io/version": "v0.19.0",
                "meta.helm.sh/release-name": release,
                "meta.helm.sh/release-namespace": namespace,
            }),
        )
    }

    fn judged(found: &CustomResourceDefinition) -> Finding {
        judge(NAMESPACE, "nodepools.karpenter.sh", found)
    }

    const TAKE: &str =
        "helm upgrade --install karpenter-crd <charts>/karpenter-crd -n kube-system --take-ownership";

    #[test]
    fn a_definition_of_the_crd_chart_is_no_obstacle() {
        assert_eq!(judged(&helm("karpenter-crd", NAMESPACE)).verdict, Verdict::Good);
        let elsewhere = judged(&helm("karpenter-crd", "karpenter"));
        assert_eq!(elsewhere.verdict, Verdict::Note);
        assert!(elsewhere.fix.contains("-n karpenter "), "{}", elsewhere.fix);
    }

    #[test]
    fn a_definition_of_another_release_is_an_obstacle_with_the_command_that_takes_it() {
        let finding = judged(&helm("platform-crds", "platform"));
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.detail.contains("release platform-crds in namespace platform"), "{}", finding.detail);
        assert!(finding.fix.starts_with(TAKE) && finding.fix.contains("do not uninstall"), "{}", finding.fix);
    }

    #[test]
    fn a_definition_without_helm_s_label_or_annotations_belongs_to_nobody() {
        // `kubectl apply` of Karpenter's file; and one that somebody annotated without the label, which Helm refuses too.
        let applied = recorded(json!({}), json!({"controller-gen.kubebuilder.io/version": "v0.19.0"}));
        let mut unlabelled = helm("karpenter-crd", NAMESPACE);
        unlabelled.metadata.labels = None;
        for found in [applied, unlabelled] {
            let finding = judged(&found);
            assert_eq!((finding.verdict, finding.fix.as_str()), (Verdict::Note, TAKE));
        }
    }

    #[test]
    fn a_definition_that_gitops_writes_back_names_its_source() {
        let tracking = "infra:apiextensions.k8s.io/CustomResourceDefinition:/nodepools.karpenter.sh";
        let flux = json!({"kustomize.toolkit.fluxcd.io/name": "platform", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        for (found, source) in [
            (
                recorded(json!({}), json!({"argocd.argoproj.io/tracking-id": tracking})),
                "Argo CD application infra",
            ),
            (recorded(flux, json!({})), "Flux Kustomization platform"),
        ] {
            let finding = judged(&found);
            assert_eq!(finding.verdict, Verdict::Wrong);
            assert!(finding.detail.contains(source), "{}", finding.detail);
        }
    }

    #[test]
    fn objects_in_an_old_version_are_an_obstacle_with_the_command_that_stores_them_anew() {
        let mut found = helm("karpenter-crd", NAMESPACE);
        found.status = serde_json::from_value(json!({"storedVersions": ["v1beta1", "v1"]})).unwrap();
        let finding = judged(&found);
        assert_eq!(finding.verdict, Verdict::Wrong);
        assert!(finding.fix.contains("kubectl patch crd nodepools.karpenter.sh"), "{}", finding.fix);
        assert!(finding.fix.contains(r#"{"status":{"storedVersions":["v1"]}}"#), "{}", finding.fix);
    }
}
