//! A NodePool with the instance types that its node class offers.

use std::sync::Arc;

use model::catalog::InstanceType;
use model::labels;
use model::pool::NodePool as Pool;
use model::requirement::{Entry, Operator, Requirement, validate};
use model::requirements::Requirements;
use model::taint::UnknownName;

use super::error::{At, Error, Invalid};
use super::node::taints_of;
use super::quantities::amounts;
use crate::nodepool::NodePool;

/// `types` is what the pool's node class offers, overlays applied.
pub fn node_pool(object: &NodePool, types: Arc<Vec<InstanceType>>) -> Result<Pool, Error> {
    convert(object, types).map_err(|invalid| invalid.of("NodePool", None, object.metadata.name.as_deref()))
}

fn convert(object: &NodePool, types: Arc<Vec<InstanceType>>) -> Result<Pool, Invalid> {
    let at = At::Root;
    let spec_at = at.key("spec");
    let template_at = spec_at.key("template");
    let inner_at = template_at.key("spec");
    let template = &object.spec.template;
    let mut own_labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    own_labels.remove(labels::NODEPOOL);
    let class = &template.spec.node_class_ref;
    let class_key = format!("{}/{}", class.group, class.kind.to_lowercase());
    own_labels.remove(&class_key);
    Ok(Pool {
        name: Arc::from(object.metadata.name.as_deref().unwrap_or_default()),
        weight: object.spec.weight.unwrap_or(0),
        limits: amounts(object.spec.limits.as_ref(), &spec_at.key("limits"))?,
        labels: own_labels,
        node_class_label: (!class.name.is_empty()).then(|| (class_key, class.name.clone())),
        taints: taints_of(template.spec.taints.as_deref(), &inner_at.key("taints"))?,
        startup_taints: taints_of(template.spec.startup_taints.as_deref(), &inner_at.key("startupTaints"))?,
        requirements: requirements(&template.spec.requirements, &inner_at.key("requirements"))?,
        fixed_size: object.spec.replicas.is_some(),
        instance_types: types,
    })
}

/// Requirements of our own resources; each is checked as the runtime validation of the reference does.
pub(super) fn requirements(
    list: &[crate::requirement::Requirement],
    at: &At<'_>,
) -> Result<Requirements, Invalid> {
    let mut all = Requirements::new();
    for (index, written) in list.iter().enumerate() {
        let here = at.index(index);
        let operator: Operator = written
            .operator
            .as_str()
            .parse()
            .map_err(|error: UnknownName| here.key("operator").invalid(error))?;
        let mut entry =
            Entry::new(written.key.as_str(), operator, written.values().iter().map(String::as_str));
        entry.min_values = match written.min_values {
            None => None,
            Some(count) => Some(
                u32::try_from(count)
                    .map_err(|_| here.key("minValues").invalid(format!("{count} is negative")))?,
            ),
        };
        validate(&entry).map_err(|invalid| here.invalid(invalid))?;
        all.add(Requirement::from(&entry));
    }
    Ok(all)
}
