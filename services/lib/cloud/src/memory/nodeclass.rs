use super::{MemoryCloud, client_error};
use crate::nodeclass::{
    Cluster, Identity, Image, ImageQuery, InstanceProfile, NodeClassSource, PlacementGroup,
    PlacementGroupSelect, ReservationQuery, SecurityGroup, Subnet,
};
use crate::reservation::Reservation;
use crate::select::Select;
use crate::{Answer, Tags};

fn selected(select: &Select, id: &str, name: Option<&str>, tags: &Tags) -> bool {
    match select {
        Select::Ids(ids) => ids.iter().any(|wanted| wanted == id),
        Select::Names(names) => name.is_some_and(|name| names.iter().any(|wanted| wanted == name)),
        Select::Tags(filters) => filters.iter().all(|filter| filter.matches(tags)),
        Select::NameAndTags(wanted, filters) => {
            name == Some(wanted) && filters.iter().all(|filter| filter.matches(tags))
        }
    }
}

impl NodeClassSource for MemoryCloud {
    fn subnets(&self, select: Select) -> Answer<'_, Vec<Subnet>> {
        self.answer("DescribeSubnets", |state| {
            Ok(state.subnets.iter().filter(|s| selected(&select, &s.id, None, &s.tags)).cloned().collect())
        })
    }

    fn security_groups(&self, select: Select) -> Answer<'_, Vec<SecurityGroup>> {
        self.answer("DescribeSecurityGroups", |state| {
            let all = state.security_groups.iter();
            Ok(all.filter(|g| selected(&select, &g.id, Some(&g.name), &g.tags)).cloned().collect())
        })
    }

    fn images(&self, query: ImageQuery) -> Answer<'_, Vec<Image>> {
        self.answer("DescribeImages", |state| {
            let owned = |image: &&Image| query.owners.is_empty() || query.owners.contains(&image.owner_id);
            let all = state.images.iter().filter(owned);
            Ok(all.filter(|i| selected(&query.select, &i.id, Some(&i.name), &i.tags)).cloned().collect())
        })
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Answer<'a, Option<String>> {
        self.answer("GetParameter", |state| Ok(state.parameters.get(name).cloned()))
    }

    fn instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, Option<InstanceProfile>> {
        self.answer("GetInstanceProfile", |state| Ok(state.profiles.get(name).cloned()))
    }

    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Answer<'a, Vec<InstanceProfile>> {
        self.answer("ListInstanceProfiles", |state| {
            Ok(state.profiles.values().filter(|p| p.path.starts_with(path_prefix)).cloned().collect())
        })
    }

    fn create_instance_profile<'a>(
        &'a self,
        name: &'a str,
        path: &'a str,
        tags: Tags,
    ) -> Answer<'a, InstanceProfile> {
        self.answer("CreateInstanceProfile", |state| {
            if state.profiles.contains_key(name) {
                return Err(client_error("CreateInstanceProfile", "EntityAlreadyExists", name));
            }
            let profile = InstanceProfile {
                name: name.to_owned(),
                path: path.to_owned(),
                created_at: Some(state.now),
                role: None,
                tags,
            };
            state.profiles.insert(name.to_owned(), profile.clone());
            Ok(profile)
        })
    }

    fn add_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()> {
        self.answer("AddRoleToInstanceProfile", |state| {
            let known = state.roles.contains(role);
            match state.profiles.get_mut(profile).filter(|_| known) {
                Some(found) => {
                    found.role = Some(role.to_owned());
                    Ok(())
                }
                None => {
                    let message = format!("the role with name {role} cannot be found");
                    Err(client_error("AddRoleToInstanceProfile", "NoSuchEntity", message))
                }
            }
        })
    }

    fn remove_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()> {
        self.answer("RemoveRoleFromInstanceProfile", |state| {
            if let Some(found) = state.profiles.get_mut(profile)
                && found.role.as_deref() == Some(role)
            {
                found.role = None;
            }
            Ok(())
        })
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.answer("DeleteInstanceProfile", |state| {
            if state.profiles.get(name).is_some_and(|p| p.role.is_some()) {
                return Err(client_error("DeleteInstanceProfile", "DeleteConflict", "remove roles first"));
            }
            state.profiles.remove(name);
            Ok(())
        })
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Answer<'a, Cluster> {
        self.answer("DescribeCluster", |state| {
            let found = state.clusters.get(name).cloned();
            let message = format!("no cluster {name}");
            found.ok_or_else(|| client_error("DescribeCluster", "ResourceNotFoundException", message))
        })
    }

    fn reservations(&self, query: ReservationQuery) -> Answer<'_, Vec<Reservation>> {
        self.answer("DescribeCapacityReservations", |state| {
            let matches = |r: &&Reservation| match &query {
                ReservationQuery::Id(id) => r.id == *id,
                ReservationQuery::Matching { tags, owner_id, match_criteria } => {
                    tags.iter().all(|t| t.matches(&r.tags))
                        && owner_id.as_ref().is_none_or(|o| *o == r.owner_id)
                        && match_criteria.is_none_or(|m| m == r.match_criteria)
                }
            };
            let now = state.now;
            Ok(state.reservations.iter().filter(matches).filter(|r| !r.has_ended(now)).cloned().collect())
        })
    }

    fn placement_group(&self, select: PlacementGroupSelect) -> Answer<'_, Option<PlacementGroup>> {
        self.answer("DescribePlacementGroups", |state| {
            let wanted = |g: &&PlacementGroup| match &select {
                PlacementGroupSelect::Id(id) => g.id == *id,
                PlacementGroupSelect::Name(name) => g.name == *name,
            };
            let found = state.placement_groups.iter().find(wanted).cloned();
            let code = "InvalidPlacementGroup.Unknown";
            found.map(Some).ok_or_else(|| {
                client_error("DescribePlacementGroups", code, format!("no placement group {select:?}"))
            })
        })
    }

    fn identity(&self) -> Answer<'_, Identity> {
        self.answer("GetCallerIdentity", |_| {
            Ok(Identity {
                account_id: "123456789012".into(),
                arn: "arn:aws:sts::123456789012:assumed-role/test/test".into(),
            })
        })
    }

    fn region(&self) -> &str {
        &self.region
    }
}
