//! Which of the claims that are created together may share fleet requests: those that differ in nothing but their name and the
//! pods they are for. Pure but for the ids, which are random.

use model::labels;

use super::{Order, names};

/// The first claims are not to wait for many others, so batches double, from this…
const FIRST: usize = 8;
/// …to this: one answer of EC2 then holds so many instances at most.
const MOST: usize = 100;

/// Annotates orders that are alike with the id of their batch; those that are alone get none.
pub(super) fn annotate(orders: &mut [Order]) {
    // Indices into `orders`; the first of each stands for all.
    let mut alike: Vec<Vec<usize>> = Vec::new();
    for (at, order) in orders.iter().enumerate() {
        match alike.iter_mut().rev().find(|group| is_alike(&orders[group[0]], order)) {
            Some(group) => group.push(at),
            None => alike.push(vec![at]),
        }
    }
    for group in alike {
        let mut rest = &group[..];
        let mut size = FIRST;
        while rest.len() > 1 {
            // One that would be left alone goes with the others.
            let end = if rest.len() == size + 1 { size + 1 } else { size.min(rest.len()) };
            let (batch, others) = rest.split_at(end);
            let id = names::batch(batch.len());
            for at in batch {
                orders[*at].wanted.annotations.insert(labels::LAUNCH_BATCH.to_owned(), id.clone());
            }
            (rest, size) = (others, MOST.min(size * 2));
        }
    }
}

/// Annotations are ours and say nothing about what is launched.
fn is_alike(a: &Order, b: &Order) -> bool {
    let (wanted, other) = (&a.wanted, &b.wanted);
    wanted.requests == other.requests
        && a.pool.metadata.uid == b.pool.metadata.uid
        && a.pool.metadata.resource_version == b.pool.metadata.resource_version
        && wanted.min_values_relaxed == other.min_values_relaxed
        && wanted.instance_types == other.instance_types
        && wanted.requirements == other.requirements
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::requirements::Requirements;
    use model::resources::{CPU, Resources};

    use super::*;
    use crate::claims::NewClaim;

    fn order(cpus: i64) -> Order {
        let pool = serde_json::json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}, "requirements": [],
            }}},
        });
        let wanted = NewClaim {
            requirements: Requirements::new(),
            instance_types: None,
            requests: Resources::new().with(CPU, model::quantity::Quantity::from_units(cpus)),
            min_values_relaxed: false,
            annotations: BTreeMap::from([("pods".to_owned(), "a".to_owned())]),
        };
        Order { pool: Arc::new(serde_json::from_value(pool).unwrap()), wanted, command: None, reason: "test" }
    }

    fn sizes(cpus: &[i64]) -> BTreeMap<Option<String>, usize> {
        let mut orders: Vec<Order> = cpus.iter().map(|cpus| order(*cpus)).collect();
        annotate(&mut orders);
        let mut counted = BTreeMap::new();
        for order in orders {
            *counted.entry(order.wanted.annotations.get(labels::LAUNCH_BATCH).cloned()).or_default() += 1;
        }
        counted
    }

    #[test]
    fn claims_that_are_alike_share_a_batch_and_its_id_says_how_many() {
        let mixed = sizes(&[1, 2, 1, 3, 1, 2]);
        assert_eq!(mixed.get(&None), Some(&1), "the one with 3");
        let mut shared: Vec<usize> = mixed.values().copied().collect();
        shared.sort_unstable();
        assert_eq!(shared, [1, 2, 3]);
        for (id, count) in mixed.iter().filter_map(|(id, count)| Some((id.as_ref()?, count))) {
            assert!(id.ends_with(&format!("-{count}")), "{id} of {count}");
        }
    }

    #[test]
    fn batches_grow_and_nobody_is_left_alone() {
        for (count, expected) in [
            (1, vec![1]),
            (2, vec![2]),
            (9, vec![9]),
            (30, vec![6, 8, 16]),
            (25, vec![8, 17]),
            (400, vec![8, 16, 32, 64, 80, 100, 100]),
        ] {
            let mut found: Vec<usize> = sizes(&vec![1; count]).into_values().collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{count} claims");
        }
    }
}
