//! What the provisioner may do to launch nodes: fleets, launch templates, tags, and looking at instances. It cannot
//! terminate.

use model::price::MicroDollars;

use crate::error::{ErrorKind, Fault, classify};
use crate::instance::Instance;
use crate::select::TagFilter;
use crate::template::{Interface, LaunchTemplate, TemplateRef};
use crate::{Answer, Tags};

pub trait Launcher: Send + Sync {
    /// Launches up to `request.count` instances now. `Ok` with fewer (or no) instances carries the reasons.
    fn create_fleet(&self, request: FleetRequest) -> Answer<'_, FleetAnswer>;

    /// Asks EC2 whether it would accept the request; launches nothing and is not retried.
    fn dry_run_fleet(&self, request: FleetRequest) -> Answer<'_, ()>;

    /// As [`Launcher::dry_run_fleet`] for a single instance: checks rights that a fleet's dry run does not.
    fn dry_run_instance(&self, request: InstanceDryRun) -> Answer<'_, ()>;

    /// `AlreadyExists` when the name is taken: names carry a hash of the content, so it is the same template.
    fn create_launch_template(&self, template: LaunchTemplate) -> Answer<'_, TemplateRef>;

    /// `None` when no template has the name.
    fn launch_template<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TemplateRef>>;

    /// All templates that carry the tags.
    fn launch_templates(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<TemplateRef>>;

    /// A template that is gone already is a success.
    fn delete_launch_template<'a>(&'a self, id: &'a str) -> Answer<'a, ()>;

    /// Instances by id. Those that EC2 does not know or reports as terminated are left out; any other failure is an error.
    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>>;

    /// All instances that carry the tags, by id, terminated ones left out.
    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>>;

    /// Adds tags to one instance; `NotFound` when it is gone.
    fn tag_instance<'a>(&'a self, id: &'a str, tags: Tags) -> Answer<'a, ()>;
}

/// One call of CreateFleet, type `instant`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FleetRequest {
    /// Instances wanted.
    pub count: u32,
    /// Makes the call idempotent: EC2 answers a repeated token with the first result, or with
    /// `IdempotentParameterMismatch` when the request is another.
    pub client_token: Option<String>,
    pub target: FleetTarget,
    /// Overrides are tried by `priority` rather than by EC2's own view of price (price overlays).
    pub prioritized: bool,
    pub context: Option<String>,
    /// Put on the fleet, its instances and their volumes.
    pub tags: Tags,
    /// Those without overrides are not sent.
    pub templates: Vec<FleetTemplate>,
}

/// How capacity is bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FleetTarget {
    Spot,
    /// Also into reservations that are not capacity blocks: the template names the reservation.
    OnDemand,
    CapacityBlock,
    InterruptibleReservation,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FleetTemplate {
    pub name: String,
    pub overrides: Vec<Override>,
}

/// One place and type EC2 may choose.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Override {
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    pub subnet_id: String,
    pub image_id: Option<String>,
    /// The offering's price; lower is tried first where the fleet is prioritized.
    pub priority: Option<MicroDollars>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    pub fleet_id: Option<String>,
    pub launched: Vec<Launched>,
    /// What EC2 could not give, also when instances were launched.
    pub errors: Vec<FleetError>,
}

/// An instance the fleet launched. Not yet visible to a describe, perhaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    pub id: String,
    pub instance_type: String,
    /// Zone name; empty when EC2 does not say, then a describe tells.
    pub zone: String,
    pub subnet_id: Option<String>,
    pub spot: bool,
}

/// Why an override gave nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetError {
    pub code: String,
    pub message: String,
    pub instance_type: Option<String>,
    /// Zone name.
    pub zone: Option<String>,
    pub subnet_id: Option<String>,
    pub template: Option<String>,
    pub spot: bool,
}

impl FleetError {
    pub fn kind(&self) -> ErrorKind {
        classify(&self.code, &self.message, Fault::Client)
    }
}

impl FleetAnswer {
    /// Nothing was launched, and every reason is a lack of capacity: choose another offering at once. With other errors
    /// among them (or none at all) the launch is tried again as it is.
    pub fn is_insufficient_capacity(&self) -> bool {
        self.launched.is_empty()
            && !self.errors.is_empty()
            && self.errors.iter().all(|error| error.kind().is_insufficient_capacity())
    }

    /// Distinct `code: message` texts, in order.
    pub fn error_text(&self) -> String {
        let mut texts: Vec<String> =
            self.errors.iter().map(|e| format!("{}: {}", e.code, e.message)).collect();
        texts.sort();
        texts.dedup();
        texts.join("; ")
    }
}

/// RunInstances as a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InstanceDryRun {
    pub template: String,
    pub instance_type: String,
    pub image_id: String,
    pub subnet_id: String,
    /// The template's interfaces: a subnet can only be given along with them.
    pub interfaces: Vec<Interface>,
    pub tags: Tags,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(codes: &[&str]) -> FleetAnswer {
        let error = |code: &&str| FleetError { code: (*code).to_owned(), ..FleetError::default() };
        FleetAnswer { errors: codes.iter().map(error).collect(), ..FleetAnswer::default() }
    }

    #[test]
    fn only_a_pure_lack_of_capacity_counts_as_insufficient_capacity() {
        for (codes, expected) in [
            (&["InsufficientInstanceCapacity"][..], true),
            (&["InsufficientInstanceCapacity", "VcpuLimitExceeded"], true),
            (&["AuthFailure.ServiceLinkedRoleCreationNotPermitted"], true),
            (&["InsufficientFreeAddressesInSubnet"], true),
            (&["InsufficientInstanceCapacity", "InternalError"], false),
            (&["UnauthorizedOperation"], false),
            (&[], false),
        ] {
            assert_eq!(answer(codes).is_insufficient_capacity(), expected, "{codes:?}");
        }
        let launched = Launched {
            id: "i-1".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            subnet_id: None,
            spot: true,
        };
        let partial = FleetAnswer { launched: vec![launched], ..answer(&["InsufficientInstanceCapacity"]) };
        assert!(!partial.is_insufficient_capacity());
    }

    #[test]
    fn repeated_reasons_are_told_once() {
        let text = answer(&["B", "A", "B"]).error_text();
        assert_eq!(text.matches("B: ").count(), 1);
        assert!(text.starts_with("A: "));
    }
}
