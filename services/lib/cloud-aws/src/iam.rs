//! Instance profiles.

use aws_sdk_iam::types::Tag;
use cloud::Tags;
use cloud::error::CloudError;
use cloud::nodeclass::InstanceProfile;

use crate::connect::Aws;
use crate::convert::timestamp;
use crate::ec2::{paced, pages};

impl Aws {
    pub(crate) async fn profile(&self, name: &str) -> Result<Option<InstanceProfile>, CloudError> {
        let call = self.iam().get_instance_profile().instance_profile_name(name);
        match paced(&self.paces().other, "GetInstanceProfile", call.send()).await {
            Ok(answer) => Ok(answer.instance_profile().map(profile)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>, CloudError> {
        const OPERATION: &str = "ListInstanceProfiles";
        let call = self.iam().list_instance_profiles().path_prefix(path_prefix);
        let mut all = Vec::new();
        pages!(self.paces().other, OPERATION, call.into_paginator().send(), |page| {
            all.extend(page.instance_profiles().iter().map(profile));
        });
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    pub(crate) async fn create_profile(
        &self,
        name: &str,
        path: &str,
        tags: Tags,
    ) -> Result<InstanceProfile, CloudError> {
        const OPERATION: &str = "CreateInstanceProfile";
        let mut call = self.iam().create_instance_profile().instance_profile_name(name).path(path);
        for (key, value) in tags {
            let tag = Tag::builder().key(key).value(value).build();
            call = call.tags(tag.map_err(|e| CloudError::invalid(OPERATION, e.to_string()))?);
        }
        let answer = paced(&self.paces().other, OPERATION, call.send()).await?;
        let created = answer.instance_profile().map(profile);
        created.ok_or_else(|| CloudError::malformed(OPERATION, "the answer holds no profile"))
    }

    pub(crate) async fn attach_role(&self, profile: &str, role: &str) -> Result<(), CloudError> {
        let call = self.iam().add_role_to_instance_profile().instance_profile_name(profile).role_name(role);
        paced(&self.paces().other, "AddRoleToInstanceProfile", call.send()).await.map(drop)
    }

    pub(crate) async fn detach_role(&self, profile: &str, role: &str) -> Result<(), CloudError> {
        let call =
            self.iam().remove_role_from_instance_profile().instance_profile_name(profile).role_name(role);
        absent_is_fine(paced(&self.paces().other, "RemoveRoleFromInstanceProfile", call.send()).await)
    }

    pub(crate) async fn delete_profile(&self, name: &str) -> Result<(), CloudError> {
        let call = self.iam().delete_instance_profile().instance_profile_name(name);
        absent_is_fine(paced(&self.paces().other, "DeleteInstanceProfile", call.send()).await)
    }
}

fn absent_is_fine<T>(result: Result<T, CloudError>) -> Result<(), CloudError> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn profile(found: &aws_sdk_iam::types::InstanceProfile) -> InstanceProfile {
    InstanceProfile {
        name: found.instance_profile_name().to_owned(),
        path: found.path().to_owned(),
        created_at: timestamp(found.create_date()),
        role: found.roles().first().map(|role| role.role_name().to_owned()),
        tags: found.tags().iter().map(|tag| (tag.key().to_owned(), tag.value().to_owned())).collect(),
    }
}
