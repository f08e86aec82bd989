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

/// `windows` and classes without pools take the fallback; `None` when no type has an image.
pub(super) fn choose<'a>(
    types: &'a [InstanceType],
    pools: &[&NodePool],
    images: &Images,
    windows: bool,
) -> Option<Choice<'a>> {
    let with_image =
        |kind: &'a InstanceType| images.for_type(kind).map(|id| Choice { kind, image_id: id.to_owned() });
    let price = |kind: &InstanceType| kind.offerings.iter().map(|o| o.price).min();
    let wanted: Vec<Requirements> = pools.iter().filter_map(|pool| requirements(pool)).collect();
    if !windows {
        let undefined_is_fine = |key: &str| !labels::is_well_known(key) || key == labels::NODEPOOL;
        let fits = |kind: &&InstanceType| {
            !kind.offerings.is_empty()
                && wanted.iter().any(|w| kind.requirements.is_compatible(w, &undefined_is_fine))
        };
        // Accelerators need images of their own; what all share is checked with an ordinary type if there is one.
        let exotic = |kind: &InstanceType| {
            kind.requirements.contains_key(labels::INSTANCE_GPU_COUNT)
                || kind.requirements.contains_key(labels::INSTANCE_ACCELERATOR_COUNT)
        };
        let mut fitting: Vec<&InstanceType> = types.iter().filter(fits).collect();
        fitting.sort_by_key(|kind| (exotic(kind), price(kind), kind.name.clone()));
        if let Some(choice) = fitting.into_iter().find_map(with_image) {
            return Some(choice);
        }
    }
    let known = FALLBACK.iter().filter_map(|name| types.iter().find(|kind| *kind.name == **name));
    known.chain(types.iter()).find_map(with_image)
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
