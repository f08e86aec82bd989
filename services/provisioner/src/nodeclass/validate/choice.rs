//! The instance type that dry runs ask for: one that the class's pools could really launch. Pure.

use api::NodePool;
use model::catalog::InstanceType;
use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;

use crate::launch::fleet::Images;

/// Small, cheap and sold nearly everywhere.
const FALLBACK: [&str; 2] = ["m5.large", "m6g.large"];

pub(super) struct Choice<'a> {
    pub(super) kind: &'a InstanceType,
    pub(super) image_id: String,
}

/// Of the types that the class can use: EC2 refuses a dry run with any other, whatever the rights are. `windows` and classes
/// without pools take the fallback; `None` when no type has an image.
pub(super) fn choose<'a>(
    types: &'a [InstanceType],
    pools: &[&NodePool],
    images: &Images,
    windows: bool,
) -> Option<Choice<'a>> {
    let usable = |kind: &&InstanceType| kind.offerings.iter().any(|offering| offering.available);
    let with_image =
        |kind: &'a InstanceType| images.for_type(kind).map(|id| Choice { kind, image_id: id.to_owned() });
    let price = |kind: &InstanceType| kind.offerings.iter().map(|o| o.price).min();
    let wanted: Vec<Requirements> = pools.iter().filter_map(|pool| requirements(pool)).collect();
    if !windows {
        let undefined_is_fine = |key: &str| !labels::is_well_known(key) || key == labels::NODEPOOL;
        let fits = |kind: &&InstanceType| {
            wanted.iter().any(|w| kind.requirements.is_compatible(w, &undefined_is_fine))
        };
        // Accelerators need images of their own; what all share is checked with an ordinary type if there is one.
        let exotic = |kind: &InstanceType| {
            kind.requirements.contains_key(labels::INSTANCE_GPU_COUNT)
                || kind.requirements.contains_key(labels::INSTANCE_ACCELERATOR_COUNT)
        };
        let mut fitting: Vec<&InstanceType> = types.iter().filter(usable).filter(fits).collect();
        fitting.sort_by_key(|kind| (exotic(kind), price(kind), kind.name.clone()));
        if let Some(choice) = fitting.into_iter().find_map(with_image) {
            return Some(choice);
        }
    }
    let known = FALLBACK.iter().filter_map(|name| types.iter().find(|kind| *kind.name == **name));
    known.chain(types.iter()).filter(usable).find_map(with_image)
}

/// Whether some pool of the class wants hardware of its own.
pub(super) fn wants_dedicated(pools: &[&NodePool]) -> bool {
    pools.iter().filter_map(|pool| requirements(pool)).any(|wanted| {
        wanted
            .get(labels::INSTANCE_TENANCY)
            .is_some_and(|tenancy| tenancy.contains(labels::TENANCY_DEDICATED))
    })
}

fn requirements(pool: &NodePool) -> Option<Requirements> {
    let template = &pool.spec.template;
    let mut all = Requirements::new();
    for written in &template.spec.requirements {
        let mut entry = written.to_entry().ok()?;
        entry.min_values = None;
        all.add(Requirement::from(&entry));
    }
    for (key, value) in template.metadata.iter().flat_map(|m| m.labels.iter().flatten()) {
        all.add(Requirement::is(key, value.as_str()));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::catalog::{CapacityType, LabelMap, Offering};
    use model::price::MicroDollars;
    use model::resources::Resources;

    use super::*;

    fn kind(name: &str, micro: i64, available: bool) -> InstanceType {
        let offering = Offering {
            zone: Arc::from("us-west-2a"),
            zone_id: None,
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars::new(micro),
            available,
            reservation: None,
            capacity_override: Resources::new(),
            overhead_override: Resources::new(),
        };
        let own: LabelMap = [(labels::ARCH.to_owned(), labels::AMD64.to_owned())].into();
        InstanceType::new(name, &own, Resources::new(), Resources::new(), vec![offering])
    }

    #[test]
    fn dry_runs_ask_only_for_types_that_the_class_can_use() {
        let amis = serde_json::json!([{"id": "ami-1", "requirements": []}]);
        let amis: Vec<api::ec2nodeclass::Ami> = serde_json::from_value(amis).unwrap();
        let images = Images::of(&amis);
        let pool: NodePool = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": []
            }}}
        }))
        .unwrap();
        let types =
            [kind("t3.nano", 1, false), kind("m5.large", 96, false), kind("c6in.32xlarge", 9_000, true)];
        for pools in [&[&pool][..], &[]] {
            let chosen = choose(&types, pools, &images, false).unwrap();
            assert_eq!(&*chosen.kind.name, "c6in.32xlarge", "{} pools", pools.len());
        }
        assert!(choose(&types[..2], &[&pool], &images, false).is_none());
    }
}
