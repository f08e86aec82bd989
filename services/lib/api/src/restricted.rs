//! Which labels users may not name, as CEL for the API server. The lists are `model::labels`'; the runtime's own check, which
//! is exact where this one compares by suffix, is in `validate`.

use model::labels::{self, Schema};

use crate::schema::{Cel, cel};

/// Well-known keys of a domain that may be named here, plus the NodeClass' own label, which the runtime check then refuses:
/// both as in the reference.
fn allowed(schema: Schema, domain: &str) -> String {
    let keys: Vec<_> = labels::WELL_KNOWN
        .iter()
        .chain([&labels::EC2NODECLASS])
        .filter(|key| labels::domain(key) == domain && !labels::is_restricted_by_schema(schema, key))
        .map(|key| format!("'{key}'"))
        .collect();
    keys.join(", ")
}

/// Rules on a variable that holds one key. Its domain is what stands before the first slash.
fn rules(schema: Schema, variable: &str, wrap: impl Fn(String) -> String) -> Cel {
    let restrict = |domain: &str, allowed: String| {
        wrap(format!("{variable} in [{allowed}] || !{variable}.find('^([^/]+)').endsWith('{domain}')"))
    };
    let core = allowed(schema, labels::KARPENTER_DOMAIN);
    let aws = allowed(schema, labels::KARPENTER_AWS_DOMAIN);
    let core_message = format!("label domain karpenter.sh is restricted; only {core} may be named here");
    let mut rules = match schema {
        // The pool's name is left to a rule whose message says why.
        Schema::NodePool => cel(
            wrap(format!("{variable} != '{}'", labels::NODEPOOL)),
            "label karpenter.sh/nodepool is restricted in a NodePool: its value is always the pool's own name",
        )
        .and(restrict(labels::KARPENTER_DOMAIN, format!("{core}, '{}'", labels::NODEPOOL)), core_message),
        Schema::NodeClaim | Schema::NodeOverlay => {
            cel(restrict(labels::KARPENTER_DOMAIN, core.clone()), core_message)
        }
    };
    rules = rules.and(
        restrict(labels::KARPENTER_AWS_DOMAIN, aws),
        "label domain karpenter.k8s.aws is restricted; only its well-known instance labels may be named here",
    );
    rules.and(
        wrap(format!("{variable} != '{}'", labels::HOSTNAME)),
        "label kubernetes.io/hostname is restricted; it is different on every node",
    )
}

/// Rules on a requirement's `key`.
pub(crate) fn key_rules(schema: Schema) -> Cel {
    rules(schema, "self", |rule| rule)
}

/// Rules on a NodePool's template labels.
pub(crate) fn label_rules() -> Cel {
    rules(Schema::NodePool, "x", |rule| format!("self.all(x, {rule})"))
}
