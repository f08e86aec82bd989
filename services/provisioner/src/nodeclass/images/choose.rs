//! Which of the images found are used, and for which types. Pure.

use std::collections::BTreeMap;

use api::ec2nodeclass::Ami;
use api::requirement::{Operator, Requirement as Written};
use cloud::nodeclass::Image;
use jiff::Timestamp;
use model::labels;
use model::requirement::{Entry, Requirement};
use model::requirements::Requirements;

use super::alias::Variant;

/// An image with what it is for.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) image: Image,
    /// `None`: by selector, which says nothing about accelerators.
    pub(super) variant: Option<Variant>,
}

/// One image for each purpose, newest first. Images of an architecture that Kubernetes does not know are left out.
pub(super) fn choose(found: Vec<Found>, now: Timestamp) -> Vec<Ami> {
    let mut best: BTreeMap<Vec<Entry>, Image> = BTreeMap::new();
    for Found { image, variant } in found {
        let Some(arch) = architecture(&image.architecture) else { continue };
        let mut purpose = Requirements::new().with(Requirement::is(labels::ARCH, arch));
        if let Some(variant) = variant {
            purpose.add_all(&variant.requirements());
        }
        let key = purpose.to_entries();
        match best.get(&key) {
            Some(known) if rank(known, now) >= rank(&image, now) => {}
            _ => {
                best.insert(key, image);
            }
        }
    }
    let mut chosen: Vec<(Vec<Entry>, Image)> = best.into_iter().collect();
    chosen.sort_by(|(purpose_a, a), (purpose_b, b)| {
        (b.created_at, &a.id, purpose_a).cmp(&(a.created_at, &b.id, purpose_b))
    });
    chosen.into_iter().map(|(purpose, image)| status(image, &purpose, now)).collect()
}

/// Greater is better.
fn rank(image: &Image, now: Timestamp) -> (bool, Option<Timestamp>, &str) {
    (!image.is_deprecated(now), image.created_at, &image.name)
}

fn architecture(name: &str) -> Option<&'static str> {
    match name {
        "x86_64" => Some(labels::AMD64),
        "arm64" => Some(labels::ARM64),
        _ => None,
    }
}

fn status(image: Image, purpose: &[Entry], now: Timestamp) -> Ami {
    let mut requirements: Vec<Written> = purpose
        .iter()
        .map(|entry| Written::new(&*entry.key, Operator::from(entry.operator.as_str()), entry.values.iter()))
        .collect();
    requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
    Ami {
        deprecated: image.is_deprecated(now).then_some(true),
        id: image.id,
        name: Some(image.name).filter(|name| !name.is_empty()),
        requirements,
        extra: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn image(id: &str, architecture: &str, created: i64) -> Image {
        Image {
            id: id.to_owned(),
            name: format!("image-{id}"),
            architecture: architecture.to_owned(),
            owner_id: "self".to_owned(),
            created_at: Some(at(created)),
            deprecated_at: None,
            tags: BTreeMap::new(),
        }
    }

    fn ids(found: Vec<(Image, Option<Variant>)>) -> Vec<String> {
        let found = found.into_iter().map(|(image, variant)| Found { image, variant }).collect();
        choose(found, at(1_000)).into_iter().map(|ami| ami.id).collect()
    }

    #[test]
    fn the_newest_image_of_each_architecture_is_used_newest_first() {
        let found = vec![
            (image("old", "x86_64", 1), None),
            (image("new", "x86_64", 3), None),
            (image("arm", "arm64", 2), None),
            (image("odd", "i386", 9), None),
        ];
        assert_eq!(ids(found), ["new", "arm"]);
    }

    #[test]
    fn a_deprecated_image_is_used_only_where_there_is_no_other() {
        let deprecated = |id, created| Image { deprecated_at: Some(at(500)), ..image(id, "x86_64", created) };
        assert_eq!(ids(vec![(deprecated("gone", 9), None), (image("kept", "x86_64", 1), None)]), ["kept"]);
        assert_eq!(ids(vec![(deprecated("gone", 9), None)]), ["gone"]);
        let alone = choose(vec![Found { image: deprecated("gone", 9), variant: None }], at(1_000));
        assert_eq!(alone[0].deprecated, Some(true));
    }

    #[test]
    fn equal_ages_are_settled_by_name_so_that_the_choice_never_flaps() {
        let (one, two) = (image("1", "x86_64", 5), image("2", "x86_64", 5));
        assert_eq!(ids(vec![(one.clone(), None), (two.clone(), None)]), ["2"]);
        assert_eq!(ids(vec![(two, None), (one, None)]), ["2"]);
    }

    #[test]
    fn one_image_of_several_variants_is_listed_for_each() {
        let found = vec![
            Found { image: image("1", "x86_64", 5), variant: Some(Variant::Standard) },
            Found { image: image("1", "x86_64", 5), variant: Some(Variant::Neuron) },
        ];
        let amis = choose(found, at(1_000));
        let purposes: Vec<Vec<String>> = amis
            .iter()
            .map(|ami| ami.requirements.iter().map(|r| format!("{} {}", r.key, r.operator)).collect())
            .collect();
        let accelerators = labels::INSTANCE_ACCELERATOR_COUNT;
        let gpus = labels::INSTANCE_GPU_COUNT;
        assert!(purposes.contains(&vec![
            "kubernetes.io/arch In".to_owned(),
            format!("{gpus} DoesNotExist"),
            format!("{accelerators} DoesNotExist"),
        ]));
        assert!(
            purposes.contains(&vec!["kubernetes.io/arch In".to_owned(), format!("{accelerators} Exists")])
        );
    }
}
