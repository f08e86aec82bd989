//! What cannot be had for now: marks after insufficient capacity, a spot interruption or a full subnet.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::catalog::CapacityType;

/// Empty fields match everything. `key` identifies what is marked, so that a repeated report renews the same mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    pub scope: Scope,
    pub since: Timestamp,
    pub until: Timestamp,
    /// EC2's error code, or `SpotInterruption`.
    pub reason: String,
    /// How often it was reported in a row.
    pub repeats: u32,
}

/// What a mark covers.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub instance_type: Option<String>,
    /// Zone name.
    pub zone: Option<String>,
    pub capacity_type: Option<CapacityType>,
    pub subnet_id: Option<String>,
    pub reservation_id: Option<String>,
    pub placement_group_id: Option<String>,
}

/// An offering as marks see it.
#[derive(Debug, Clone, Copy)]
pub struct Offered<'a> {
    pub instance_type: &'a str,
    pub zone: &'a str,
    pub capacity_type: CapacityType,
    pub reservation_id: Option<&'a str>,
    pub placement_group_id: Option<&'a str>,
    /// Subnets of the node class in this zone. The zone is lost only when all of them are marked.
    pub subnet_ids: &'a [String],
}

impl Scope {
    pub fn offering(capacity_type: CapacityType, instance_type: &str, zone: &str) -> Self {
        Self {
            instance_type: Some(instance_type.to_owned()),
            zone: Some(zone.to_owned()),
            capacity_type: Some(capacity_type),
            ..Self::default()
        }
    }

    pub fn capacity_type(capacity_type: CapacityType) -> Self {
        Self { capacity_type: Some(capacity_type), ..Self::default() }
    }

    pub fn zone(capacity_type: CapacityType, zone: &str) -> Self {
        Self { zone: Some(zone.to_owned()), capacity_type: Some(capacity_type), ..Self::default() }
    }

    pub fn subnet(subnet_id: &str) -> Self {
        Self { subnet_id: Some(subnet_id.to_owned()), ..Self::default() }
    }

    pub fn reservation(reservation_id: &str) -> Self {
        Self { reservation_id: Some(reservation_id.to_owned()), ..Self::default() }
    }

    #[must_use]
    pub fn in_placement_group(mut self, group_id: &str) -> Self {
        self.placement_group_id = Some(group_id.to_owned());
        self
    }

    /// Stable text of what is marked, the key on the wire: `spot:m5.large:us-east-1a`, `subnet:subnet-1`, …
    pub fn key(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.capacity_type.map(|c| c.as_str().to_owned()));
        parts.extend(self.instance_type.clone());
        parts.extend(self.zone.clone());
        parts.extend(self.subnet_id.as_ref().map(|id| format!("subnet:{id}")));
        parts.extend(self.reservation_id.as_ref().map(|id| format!("reservation:{id}")));
        parts.extend(self.placement_group_id.as_ref().map(|id| format!("group:{id}")));
        parts.join(":")
    }

    /// The mark covers nothing in particular and must not be accepted: it would make everything unavailable.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this mark alone rules the offering out. Subnet marks never do: see [`Marks`].
    pub fn covers(&self, offered: &Offered<'_>) -> bool {
        let same = |mark: &Option<String>, own: Option<&str>| {
            mark.as_deref().is_none_or(|wanted| own == Some(wanted))
        };
        !self.is_everything()
            && self.subnet_id.is_none()
            && same(&self.instance_type, Some(offered.instance_type))
            && same(&self.zone, Some(offered.zone))
            && self.capacity_type.is_none_or(|wanted| wanted == offered.capacity_type)
            && same(&self.reservation_id, offered.reservation_id)
            && same(&self.placement_group_id, offered.placement_group_id)
    }
}

/// Marks in force, found by instance type so that a long list costs nothing to the types it does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    by_type: BTreeMap<String, Vec<Scope>>,
    /// Marks of zones, capacity types and reservations.
    broad: Vec<Scope>,
    full_subnets: BTreeSet<String>,
}

impl FromIterator<Scope> for Marks {
    /// Marks that cover nothing in particular are dropped: they would make everything unavailable.
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        let mut marks = Self::default();
        for scope in scopes.into_iter().filter(|s| !s.is_everything()) {
            match (&scope.subnet_id, &scope.instance_type) {
                (Some(subnet), _) => {
                    marks.full_subnets.insert(subnet.clone());
                }
                (None, Some(name)) => marks.by_type.entry(name.clone()).or_default().push(scope),
                (None, None) => marks.broad.push(scope),
            }
        }
        marks
    }
}

impl Marks {
    /// The offering is covered by a mark, or its zone has subnets and all of them are full. Reserved capacity is ruled
    /// out by marks on its own reservation only.
    pub fn is_unavailable(&self, offered: &Offered<'_>) -> bool {
        let reserved = offered.capacity_type == CapacityType::Reserved;
        let own = self.by_type.get(offered.instance_type).map_or(&[][..], Vec::as_slice);
        let covered = own
            .iter()
            .chain(&self.broad)
            .any(|mark| (!reserved || mark.reservation_id.is_some()) && mark.covers(offered));
        let no_address = !offered.subnet_ids.is_empty()
            && offered.subnet_ids.iter().all(|id| self.full_subnets.contains(id));
        covered || no_address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_unavailable<const N: usize>(marks: [&Scope; N], offered: &Offered<'_>) -> bool {
        marks.into_iter().cloned().collect::<Marks>().is_unavailable(offered)
    }

    fn offered(subnet_ids: &[String]) -> Offered<'_> {
        Offered {
            instance_type: "m5.large",
            zone: "us-east-1a",
            capacity_type: CapacityType::Spot,
            reservation_id: None,
            placement_group_id: None,
            subnet_ids,
        }
    }

    #[test]
    fn a_mark_covers_exactly_what_it_names() {
        let spot = CapacityType::Spot;
        for (mark, expected) in [
            (Scope::offering(spot, "m5.large", "us-east-1a"), true),
            (Scope::offering(CapacityType::OnDemand, "m5.large", "us-east-1a"), false),
            (Scope::offering(spot, "m5.xlarge", "us-east-1a"), false),
            (Scope::offering(spot, "m5.large", "us-east-1b"), false),
            (Scope::capacity_type(spot), true),
            (Scope::zone(spot, "us-east-1a"), true),
            (Scope::zone(spot, "us-east-1b"), false),
            (Scope::offering(spot, "m5.large", "us-east-1a").in_placement_group("pg-1"), false),
            (Scope::default(), false),
        ] {
            assert_eq!(is_unavailable([&mark], &offered(&[])), expected, "{}", mark.key());
        }
    }

    #[test]
    fn inside_a_placement_group_both_scoped_and_unscoped_marks_count() {
        let mark = Scope::offering(CapacityType::Spot, "m5.large", "us-east-1a");
        let scoped = mark.clone().in_placement_group("pg-1");
        let inside = Offered { placement_group_id: Some("pg-1"), ..offered(&[]) };
        assert!(is_unavailable([&mark], &inside));
        assert!(is_unavailable([&scoped], &inside));
        assert!(!is_unavailable([&scoped], &Offered { placement_group_id: Some("pg-2"), ..inside }));
    }

    #[test]
    fn a_zone_is_lost_only_when_all_of_its_subnets_are_full() {
        let (one, two) = (Scope::subnet("subnet-1"), Scope::subnet("subnet-2"));
        let both = ["subnet-1".to_owned(), "subnet-2".to_owned()];
        assert!(!is_unavailable([&one], &offered(&both)));
        assert!(is_unavailable([&one, &two], &offered(&both)));
        assert!(!is_unavailable([&one, &two], &offered(&[])));
    }

    #[test]
    fn reserved_capacity_ignores_marks_of_the_open_market() {
        let reserved =
            Offered { capacity_type: CapacityType::Reserved, reservation_id: Some("cr-1"), ..offered(&[]) };
        let everywhere = Scope { zone: Some("us-east-1a".into()), ..Scope::default() };
        assert!(!is_unavailable([&everywhere], &reserved));
        assert!(is_unavailable([&Scope::reservation("cr-1")], &reserved));
        assert!(!is_unavailable([&Scope::reservation("cr-2")], &reserved));
    }

    #[test]
    fn keys_tell_different_scopes_apart() {
        assert_eq!(
            Scope::offering(CapacityType::Spot, "m5.large", "us-east-1a").key(),
            "spot:m5.large:us-east-1a"
        );
        assert_ne!(Scope::subnet("x").key(), Scope::reservation("x").key());
    }
}
