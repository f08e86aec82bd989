//! The content of a launch template, from a resolved class and what one launch needs. Pure. Its name is a hash of its
//! content, so that equal content is the same template whoever made it, also after a restart.

use std::collections::BTreeMap;

use api::EC2NodeClass;
use api::ec2nodeclass::{BlockDeviceMapping, HttpTokens, InterfaceType, KubeletConfiguration, Switch};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloud::Tags;
use cloud::derive::Family;
use cloud::instance::{CLUSTER_TAG, NODECLASS_TAG, NODEPOOL_TAG, ownership_tag};
use cloud::nodeclass::{PlacementGroup, PlacementStrategy};
use cloud::template::{
    BlockDevice, ConnectionTracking, Ebs, Interface, InterfaceKind, LaunchTemplate, Market, MetadataOptions,
    ReservationChoice, TemplateData,
};
use model::catalog::CapacityType;
use model::labels;
use model::quantity::Quantity;

use super::candidates::Kind;
use super::claim_request::ClaimRequest;
use super::facts::ClusterFacts;
use super::fleet::Shape;
use super::userdata::{self, Boot, BootTaint, Unrenderable, UserData};

const NAME_PREFIX: &str = "karpenter.k8s.aws/";
const GIB: i64 = 1 << 30;
/// The metadata service of these regions does not know its IPv6 switch.
const WITHOUT_METADATA_IPV6: &[&str] = &[
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-south-1",
    "us-isof-east-1",
];

/// What a template depends on besides its shape.
pub struct Setting<'a> {
    pub class: &'a EC2NodeClass,
    pub cluster: &'a ClusterFacts,
    pub wanted: &'a ClaimRequest,
    pub buying: CapacityType,
    pub placement_group: Option<&'a PlacementGroup>,
    /// Feature gate ReservedCapacity.
    pub reserved_capacity: bool,
}

/// A template ready to be created, and what to tell about its user data.
pub struct Rendered {
    pub template: LaunchTemplate,
    /// Decoded size.
    pub user_data_bytes: usize,
    pub dropped_settings: Vec<String>,
}

pub fn family(class: &EC2NodeClass) -> Family {
    class.spec.resolved_ami_family().map_or(Family::Al2, |family| Family::parse(family.as_str()))
}

/// Tags of everything a launch makes; ours win over the user's.
pub fn tags(class: &EC2NodeClass, pool: &str, cluster: &str) -> Tags {
    let mut tags: Tags = class.spec.tags.clone().unwrap_or_default();
    tags.insert(ownership_tag(cluster), "owned".to_owned());
    tags.insert(NODEPOOL_TAG.to_owned(), pool.to_owned());
    tags.insert(CLUSTER_TAG.to_owned(), cluster.to_owned());
    tags.insert(NODECLASS_TAG.to_owned(), class.metadata.name.clone().unwrap_or_default());
    tags
}

pub fn render(setting: &Setting<'_>, shape: &Shape) -> Result<Rendered, Unrenderable> {
    let UserData { text, dropped } = userdata::render(family(setting.class), &boot(setting, shape))?;
    let tags = tags(setting.class, &setting.wanted.pool, &setting.cluster.name);
    let data = data(setting, shape, &text, tags.clone());
    let mut template = LaunchTemplate { name: String::new(), tags, data };
    template.name = format!("{NAME_PREFIX}{}", content_hash(&template));
    Ok(Rendered { template, user_data_bytes: text.len(), dropped_settings: dropped })
}

/// FNV-1a over the JSON of the content.
fn content_hash(template: &LaunchTemplate) -> u64 {
    let bytes = serde_json::to_vec(template).expect("plain data with text keys has a JSON form");
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn data(setting: &Setting<'_>, shape: &Shape, user_data: &str, tags: Tags) -> TemplateData {
    let spec = &setting.class.spec;
    let status = setting.class.status.as_ref();
    let nested = spec.cpu_options.as_ref().and_then(|o| o.nested_virtualization.as_ref());
    let reserved = shape.reservation.as_ref();
    TemplateData {
        image_id: shape.image_id.clone(),
        instance_profile: status.and_then(|s| s.instance_profile.clone()),
        user_data: (!user_data.is_empty()).then(|| STANDARD.encode(user_data)),
        detailed_monitoring: spec.detailed_monitoring.unwrap_or(false),
        block_devices: block_devices(setting.class),
        metadata: metadata(setting.class, &setting.cluster.region),
        nested_virtualization: nested.map(|switch| *switch == Switch::Enabled),
        interfaces: interfaces(setting.class, shape.efa, setting.cluster.is_ipv6()),
        tenancy: setting.wanted.tenancy().to_owned(),
        placement_group_id: setting.placement_group.map(|group| group.id.clone()),
        partition: setting.placement_group.and_then(|group| partition(group, setting.wanted)),
        enclave: setting.wanted.wants_enclave(),
        reservation: match reserved {
            _ if !setting.reserved_capacity => ReservationChoice::Open,
            Some((id, _)) => ReservationChoice::Only(id.clone()),
            None => ReservationChoice::Avoid,
        },
        market: reserved.and_then(|(_, kind)| match kind {
            Kind::OnDemand => None,
            Kind::Block => Some(Market::CapacityBlock),
            Kind::Interruptible => Some(Market::InterruptibleReservation),
        }),
        tags,
        spot: setting.buying == CapacityType::Spot,
    }
}

/// The partition the claim asks for, the lowest of several; `None` leaves it to EC2.
pub fn partition(group: &PlacementGroup, wanted: &ClaimRequest) -> Option<u32> {
    let PlacementStrategy::Partition(count) = group.strategy else { return None };
    let asked = wanted.requirements.get(labels::PLACEMENT_GROUP_PARTITION)?;
    (1..=count).find(|number| asked.contains(&number.to_string()))
}

fn boot(setting: &Setting<'_>, shape: &Shape) -> Boot {
    let class = setting.class;
    let family = family(class);
    let mut kubelet: KubeletConfiguration = class.spec.kubelet.clone().unwrap_or_default();
    if kubelet.max_pods.is_none() {
        kubelet.max_pods = i32::try_from(shape.max_pods).ok();
    }
    if kubelet.cluster_dns.is_none() {
        kubelet.cluster_dns = setting.cluster.dns.clone().map(|address| vec![address]);
    }
    Boot {
        cluster_name: setting.cluster.name.clone(),
        endpoint: setting.cluster.endpoint.clone(),
        ca_bundle: setting.cluster.ca_bundle.clone(),
        service_cidr: setting.cluster.service_cidr().map(str::to_owned),
        kubelet,
        taints: boot_taints(setting.wanted),
        labels: boot_labels(setting.wanted, setting.buying, family),
        custom: class.spec.user_data.clone(),
        raid0: class.spec.instance_store_policy.is_some(),
        bind_named_directories: family == Family::Bottlerocket && !binds_by_itself(class),
    }
}

/// Until it is registered nothing may run on the node that does not tolerate everything.
fn boot_taints(wanted: &ClaimRequest) -> Vec<BootTaint> {
    let mut taints = wanted.taints.clone();
    if !taints.iter().any(|t| t.key == labels::UNREGISTERED_TAINT && t.effect == "NoExecute") {
        taints.push(BootTaint {
            key: labels::UNREGISTERED_TAINT.to_owned(),
            value: String::new(),
            effect: "NoExecute".to_owned(),
        });
    }
    taints
}

/// Labels a kubelet may set on its own node; the others are put on at registration.
fn boot_labels(wanted: &ClaimRequest, buying: CapacityType, family: Family) -> BTreeMap<String, String> {
    let mut all = wanted.labels.clone();
    all.insert(labels::CAPACITY_TYPE.to_owned(), buying.as_str().to_owned());
    if family != Family::Custom {
        all.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), labels::TRUE.to_owned());
    }
    all.retain(|key, _| !labels::is_kubernetes_domain(key));
    all
}

/// Bottlerocket 1.46 and later know what to bind to the instance store.
fn binds_by_itself(class: &EC2NodeClass) -> bool {
    let names = class.spec.ami_selector_terms.iter().filter_map(|term| term.name.clone());
    let resolved =
        class.status.iter().flat_map(|s| s.amis.iter().flatten()).filter_map(|ami| ami.name.clone());
    let version = match class.spec.alias() {
        Some((_, version)) => Some(version.to_owned()),
        None => names.chain(resolved).find_map(|name| {
            name.split('-')
                .find(|part| part.strip_prefix('v').is_some_and(|v| major_minor(v).is_some()))
                .map(str::to_owned)
        }),
    };
    match version.as_deref() {
        Some("latest") => true,
        Some(text) => major_minor(text.trim_start_matches('v')).is_some_and(|version| version >= (1, 46)),
        None => false,
    }
}

fn major_minor(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn block_devices(class: &EC2NodeClass) -> Vec<BlockDevice> {
    match &class.spec.block_device_mappings {
        Some(mappings) if !mappings.is_empty() => mappings.iter().map(block_device).collect(),
        _ => {
            let volume = |(device, gib): &(&str, u32)| BlockDevice {
                device_name: (*device).to_owned(),
                ebs: Some(Ebs {
                    encrypted: Some(true),
                    size_gib: Some(*gib),
                    volume_type: Some("gp3".to_owned()),
                    ..Ebs::default()
                }),
            };
            family(class).default_volumes().iter().map(volume).collect()
        }
    }
}

fn block_device(mapping: &BlockDeviceMapping) -> BlockDevice {
    let figure = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    let ebs = mapping.ebs.as_ref().map(|ebs| Ebs {
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: figure(ebs.iops),
        kms_key_id: ebs.kms_key_id.clone(),
        snapshot_id: ebs.snapshot_id.clone(),
        throughput: figure(ebs.throughput),
        initialization_rate: figure(ebs.volume_initialization_rate.map(i64::from)),
        size_gib: ebs.volume_size.as_ref().and_then(|size| whole_gib(size)),
        volume_type: ebs.volume_type.as_ref().map(|kind| kind.as_str().to_owned()),
    });
    BlockDevice { device_name: mapping.device_name.clone().unwrap_or_default(), ebs }
}

/// EC2 takes whole GiB; less than asked would not do.
fn whole_gib(size: &str) -> Option<u32> {
    let bytes = size.parse::<Quantity>().ok()?.value_ceil();
    u32::try_from(bytes / GIB + i64::from(bytes % GIB > 0)).ok()
}

fn metadata(class: &EC2NodeClass, region: &str) -> Option<MetadataOptions> {
    let options = class.spec.metadata_options.clone().unwrap_or_default();
    let on = |switch: &Option<Switch>| *switch == Some(Switch::Enabled);
    Some(MetadataOptions {
        endpoint: on(&options.http_endpoint),
        ipv6: (!WITHOUT_METADATA_IPV6.contains(&region)).then(|| on(&options.http_protocol_ipv6)),
        hop_limit: options.http_put_response_hop_limit.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        tokens_required: options.http_tokens != Some(HttpTokens::Optional),
    })
}

fn interfaces(class: &EC2NodeClass, efa: u32, ipv6: bool) -> Vec<Interface> {
    let spec = &class.spec;
    let groups: Vec<String> =
        class.status.iter().flat_map(|s| s.security_groups.iter().flatten()).map(|g| g.id.clone()).collect();
    let seconds = |n: Option<i32>| n.and_then(|n| u32::try_from(n).ok());
    let tracking = spec.connection_tracking.as_ref().map(|tracking| ConnectionTracking {
        tcp_established: seconds(tracking.tcp_established_timeout),
        udp_stream: seconds(tracking.udp_stream_timeout),
        udp: seconds(tracking.udp_timeout),
    });
    let prefixes = spec.ip_prefix_count.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    let with_address = |card_index, device_index, kind| Interface {
        card_index,
        device_index,
        kind,
        security_group_ids: groups.clone(),
        public_ip: spec.associate_public_ip_address,
        ipv4_prefixes: prefixes.filter(|_| !ipv6),
        ipv6_prefixes: prefixes.filter(|_| ipv6),
        ipv6_addresses: ipv6.then_some(1),
        primary_ipv6: ipv6.then_some(true),
        connection_tracking: tracking,
    };
    let listed = spec.network_interfaces.as_deref().unwrap_or_default();
    if !listed.is_empty() {
        let index = |n: i32| u32::try_from(n).unwrap_or(0);
        let of = |own: &api::ec2nodeclass::NetworkInterface| {
            let (card, device) = (Some(index(own.network_card_index)), index(own.device_index));
            if own.interface_type == InterfaceType::EfaOnly {
                let kind = InterfaceKind::EfaOnly;
                let security_group_ids = groups.clone();
                return Interface {
                    card_index: card,
                    device_index: device,
                    kind,
                    security_group_ids,
                    ..Interface::default()
                };
            }
            with_address(card, device, InterfaceKind::Interface)
        };
        return listed.iter().map(of).collect();
    }
    if efa > 0 {
        let of = |card: u32| with_address(Some(card), u32::from(card > 0), InterfaceKind::Efa);
        return (0..efa).map(of).collect();
    }
    vec![with_address(None, 0, InterfaceKind::Interface)]
}
