//! The traits of `cloud`, each method one call away. A service takes the traits it has the rights for as
//! `Arc<dyn Trait>`; nothing else of [`Aws`] is visible to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cloud::catalog::{CatalogSource, OnDemandPrice, PriceList, SpotPrice, ZonalShift};
use cloud::error::CloudError;
use cloud::facts::{TypeFacts, Zone};
use cloud::instance::{Instance, InstanceState};
use cloud::launch::{FleetAnswer, FleetRequest, InstanceDryRun, Launcher};
use cloud::nodeclass::{
    Cluster, Identity, Image, ImageQuery, InstanceProfile, NodeClassSource, PlacementGroup,
    PlacementGroupSelect, ReservationQuery, SecurityGroup, Subnet,
};
use cloud::queue::{
    HealthSource, InstanceHealth, Message, Queue, QueueInfo, ReceiptError, ReceiveOptions, Rule, RuleTarget,
    Rules,
};
use cloud::reservation::Reservation;
use cloud::select::{Select, TagFilter};
use cloud::template::{LaunchTemplate, TemplateRef};
use cloud::terminate::Terminator;
use cloud::{Answer, Tags};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::calls::error_name;
use crate::connect::Aws;

/// Controllers as the reference names them, for the calls that it counts.
const TYPES: &str = "providers.instancetype";
const PRICES: &str = "providers.pricing";
const CLAIMS: &str = "nodeclaim.lifecycle";
const GARBAGE: &str = "nodeclaim.garbagecollection";

impl Aws {
    /// The call, counted.
    fn counted<'a, T: 'a>(
        &'a self,
        controller: &'static str,
        method: &'static str,
        call: impl Future<Output = Result<T, CloudError>> + Send + 'a,
    ) -> Answer<'a, T> {
        let counted = async move {
            let began = Instant::now();
            let answer = call.await;
            let error = answer.as_ref().err().map(error_name);
            self.calls().called(controller, method, began.elapsed(), error);
            answer
        };
        counted.boxed()
    }

    async fn terminate_counted(&self, ids: Vec<String>) -> Vec<(String, Result<InstanceState, CloudError>)> {
        let began = Instant::now();
        let ended = self.ec2().terminate(ids).await;
        self.calls().called(CLAIMS, "Delete", began.elapsed(), None);
        for error in ended.iter().filter_map(|(_, result)| result.as_ref().err()) {
            self.calls().failed(CLAIMS, "Delete", error);
        }
        ended
    }
}

impl CatalogSource for Aws {
    fn check_access(&self) -> Answer<'_, ()> {
        self.ec2().check_access().boxed()
    }

    fn instance_types(&self) -> Answer<'_, Vec<TypeFacts>> {
        self.counted(TYPES, "GetInstanceTypes", self.ec2().instance_types())
    }

    fn offerings(&self) -> Answer<'_, BTreeMap<String, BTreeSet<String>>> {
        self.ec2().offerings().boxed()
    }

    fn zones(&self) -> Answer<'_, Vec<Zone>> {
        self.ec2().zones().boxed()
    }

    fn spot_prices(&self) -> Answer<'_, PriceList<SpotPrice>> {
        self.counted(PRICES, "GetSpotPrices", self.ec2().spot_prices())
    }

    fn on_demand_prices(&self) -> Answer<'_, PriceList<OnDemandPrice>> {
        self.counted(PRICES, "GetOnDemandPrices", self.price_list())
    }

    fn reservations(&self) -> Answer<'_, Vec<Reservation>> {
        self.ec2().all_reservations().boxed()
    }

    fn zonal_shifts<'a>(&'a self, cluster_arn: &'a str) -> Answer<'a, Vec<ZonalShift>> {
        self.current_shifts(cluster_arn).boxed()
    }

    fn cluster_arn<'a>(&'a self, cluster: &'a str) -> Answer<'a, String> {
        async move { Ok(self.describe_cluster(cluster).await?.arn) }.boxed()
    }

    fn region(&self) -> &str {
        self.region_name()
    }
}

impl Launcher for Aws {
    fn create_fleet(&self, request: FleetRequest) -> Answer<'_, FleetAnswer> {
        self.ec2().create_fleet(request).boxed()
    }

    fn dry_run_fleet(&self, request: FleetRequest) -> Answer<'_, ()> {
        self.ec2().dry_run_fleet(request).boxed()
    }

    fn dry_run_instance(&self, request: InstanceDryRun) -> Answer<'_, ()> {
        self.ec2().dry_run_instance(request).boxed()
    }

    fn create_launch_template(&self, template: LaunchTemplate) -> Answer<'_, TemplateRef> {
        async move { self.ec2().create_launch_template(&template).await }.boxed()
    }

    fn launch_template<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TemplateRef>> {
        self.ec2().launch_template(name).boxed()
    }

    fn launch_templates(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<TemplateRef>> {
        async move { self.ec2().launch_templates(&tags).await }.boxed()
    }

    fn delete_launch_template<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        self.ec2().delete_launch_template(id).boxed()
    }

    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        self.counted(CLAIMS, "Get", self.ec2().instances_by_id(ids))
    }

    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        self.counted(CLAIMS, "List", async move { self.ec2().instances_by_tags(&tags).await })
    }

    fn tag_instance<'a>(&'a self, id: &'a str, tags: Tags) -> Answer<'a, ()> {
        async move { self.ec2().tag_instance(id, &tags).await }.boxed()
    }
}

impl NodeClassSource for Aws {
    fn subnets(&self, select: Select) -> Answer<'_, Vec<Subnet>> {
        self.ec2().subnets(select).boxed()
    }

    fn security_groups(&self, select: Select) -> Answer<'_, Vec<SecurityGroup>> {
        self.ec2().security_groups(select).boxed()
    }

    fn images(&self, query: ImageQuery) -> Answer<'_, Vec<Image>> {
        self.ec2().images(query).boxed()
    }

    fn parameter<'a>(&'a self, name: &'a str) -> Answer<'a, Option<String>> {
        self.find_parameter(name).boxed()
    }

    fn instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, Option<InstanceProfile>> {
        self.profile(name).boxed()
    }

    fn instance_profiles<'a>(&'a self, path_prefix: &'a str) -> Answer<'a, Vec<InstanceProfile>> {
        self.profiles(path_prefix).boxed()
    }

    fn create_instance_profile<'a>(
        &'a self,
        name: &'a str,
        path: &'a str,
        tags: Tags,
    ) -> Answer<'a, InstanceProfile> {
        self.create_profile(name, path, tags).boxed()
    }

    fn add_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()> {
        self.attach_role(profile, role).boxed()
    }

    fn remove_role<'a>(&'a self, profile: &'a str, role: &'a str) -> Answer<'a, ()> {
        self.detach_role(profile, role).boxed()
    }

    fn delete_instance_profile<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.delete_profile(name).boxed()
    }

    fn cluster<'a>(&'a self, name: &'a str) -> Answer<'a, Cluster> {
        self.describe_cluster(name).boxed()
    }

    fn reservations(&self, query: ReservationQuery) -> Answer<'_, Vec<Reservation>> {
        self.ec2().reservations(query).boxed()
    }

    fn placement_group(&self, select: PlacementGroupSelect) -> Answer<'_, Option<PlacementGroup>> {
        self.ec2().placement_group(select).boxed()
    }

    fn identity(&self) -> Answer<'_, Identity> {
        self.caller().boxed()
    }

    fn region(&self) -> &str {
        self.region_name()
    }
}

impl Terminator for Aws {
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<(String, Result<InstanceState, CloudError>)>> {
        self.terminate_counted(ids).boxed()
    }

    fn instances_by_id(&self, ids: Vec<String>) -> Answer<'_, Vec<Instance>> {
        self.counted(CLAIMS, "Get", self.ec2().instances_by_id(ids))
    }

    fn instances_by_tags(&self, tags: Vec<TagFilter>) -> Answer<'_, Vec<Instance>> {
        self.counted(GARBAGE, "List", async move { self.ec2().instances_by_tags(&tags).await })
    }
}

impl HealthSource for Aws {
    fn unhealthy(&self) -> Answer<'_, Vec<InstanceHealth>> {
        self.ec2().unhealthy().boxed()
    }

    fn ending(&self, ids: Vec<String>) -> Answer<'_, BTreeSet<String>> {
        self.ec2().ending(ids).boxed()
    }
}

impl Queue for Aws {
    fn find<'a>(&'a self, name_or_url: &'a str) -> Answer<'a, QueueInfo> {
        self.find_queue(name_or_url).boxed()
    }

    fn receive<'a>(&'a self, url: &'a str, options: ReceiveOptions) -> Answer<'a, Vec<Message>> {
        self.receive_messages(url, options).boxed()
    }

    fn delete<'a>(&'a self, url: &'a str, receipts: Vec<String>) -> Answer<'a, Vec<ReceiptError>> {
        self.delete_messages(url, receipts).boxed()
    }

    fn extend<'a>(
        &'a self,
        url: &'a str,
        receipts: Vec<String>,
        visibility: Duration,
    ) -> Answer<'a, Vec<ReceiptError>> {
        self.extend_messages(url, receipts, visibility).boxed()
    }
}

impl Rules for Aws {
    fn rule<'a>(&'a self, name: &'a str) -> Answer<'a, Option<Rule>> {
        self.find_rule(name).boxed()
    }

    fn rules<'a>(&'a self, name_prefix: &'a str) -> Answer<'a, Vec<Rule>> {
        self.find_rules(name_prefix).boxed()
    }

    fn rules_of_target<'a>(&'a self, arn: &'a str) -> Answer<'a, Vec<Rule>> {
        self.find_rules_of_target(arn).boxed()
    }

    fn put_rule<'a>(&'a self, name: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        self.save_rule(name, pattern).boxed()
    }

    fn put_target<'a>(&'a self, rule: &'a str, target: RuleTarget) -> Answer<'a, ()> {
        self.save_target(rule, target).boxed()
    }

    fn delete_rule<'a>(&'a self, name: &'a str) -> Answer<'a, ()> {
        self.drop_rule(name).boxed()
    }
}
