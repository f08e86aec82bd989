//! The spec of an EC2NodeClass as the Go structure that is hashed. Selector terms, `ipPrefixCount` and the literal `amiFamily`
//! are not part of it.

use model::quantity::Quantity;

use super::go::{self, Struct};
use super::nodepool::duration;
use crate::ec2nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, KubeletConfiguration,
    MetadataOptions, NetworkInterface, PlacementGroupSelector,
};

pub(super) fn spec(spec: &EC2NodeClassSpec) -> u64 {
    Struct::new("EC2NodeClassSpec")
        .optional("PlacementGroupSelector", spec.placement_group_selector.as_ref(), placement_group)
        .optional("AssociatePublicIPAddress", spec.associate_public_ip_address, go::boolean)
        .optional("UserData", spec.user_data.as_deref(), go::text)
        .plain_text("Role", spec.role.as_deref().unwrap_or_default())
        .optional("InstanceProfile", spec.instance_profile.as_deref(), go::text)
        .optional("Tags", spec.tags.as_ref(), |tags| go::map(tags, |v| go::text(v)))
        .optional("Kubelet", spec.kubelet.as_ref(), kubelet)
        .optional("BlockDeviceMappings", spec.block_device_mappings.as_ref(), |l| go::list(l, mapping))
        .optional("InstanceStorePolicy", spec.instance_store_policy.as_ref(), |p| go::text(p.as_str()))
        .optional("NetworkInterfaces", spec.network_interfaces.as_ref(), |l| go::list(l, network_interface))
        .optional("DetailedMonitoring", spec.detailed_monitoring, go::boolean)
        .optional("MetadataOptions", spec.metadata_options.as_ref(), metadata_options)
        .optional("ConnectionTracking", spec.connection_tracking.as_ref(), connection_tracking)
        .optional("Context", spec.context.as_deref(), go::text)
        .optional("CPUOptions", spec.cpu_options.as_ref(), cpu_options)
        .end()
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    Struct::new("PlacementGroupSelector")
        .optional("Name", selector.name.as_deref(), go::text)
        .optional("ID", selector.id.as_deref(), go::text)
        .end()
}

fn kubelet(kubelet: &KubeletConfiguration) -> u64 {
    Struct::new("KubeletConfiguration")
        .optional("ClusterDNS", kubelet.cluster_dns.as_ref(), |servers| go::list(servers, |s| go::text(s)))
        .optional("MaxPods", kubelet.max_pods, go::int32)
        .optional("PodsPerCore", kubelet.pods_per_core, go::int32)
        .optional("SystemReserved", kubelet.system_reserved.as_ref(), |m| go::map(m, |v| go::text(v)))
        .optional("KubeReserved", kubelet.kube_reserved.as_ref(), |m| go::map(m, |v| go::text(v)))
        .optional("EvictionHard", kubelet.eviction_hard.as_ref(), |m| go::map(m, |v| go::text(v)))
        .optional("EvictionSoft", kubelet.eviction_soft.as_ref(), |m| go::map(m, |v| go::text(v)))
        .optional("EvictionSoftGracePeriod", kubelet.eviction_soft_grace_period.as_ref(), |m| {
            go::map(m, duration)
        })
        .optional("EvictionMaxPodGracePeriod", kubelet.eviction_max_pod_grace_period, go::int32)
        .optional("ImageGCHighThresholdPercent", kubelet.image_gc_high_threshold_percent, go::int32)
        .optional("ImageGCLowThresholdPercent", kubelet.image_gc_low_threshold_percent, go::int32)
        .optional("CPUCFSQuota", kubelet.cpu_cfs_quota, go::boolean)
        .end()
}

fn mapping(mapping: &BlockDeviceMapping) -> u64 {
    Struct::new("BlockDeviceMapping")
        .optional("DeviceName", mapping.device_name.as_deref(), go::text)
        .optional("EBS", mapping.ebs.as_ref(), block_device)
        .plain_boolean("RootVolume", mapping.root_volume.unwrap_or(false))
        .end()
}

fn block_device(device: &BlockDevice) -> u64 {
    Struct::new("BlockDevice")
        .optional("DeleteOnTermination", device.delete_on_termination, go::boolean)
        .optional("Encrypted", device.encrypted, go::boolean)
        .optional("IOPS", device.iops, go::int64)
        .optional("KMSKeyID", device.kms_key_id.as_deref(), go::text)
        .optional("SnapshotID", device.snapshot_id.as_deref(), go::text)
        .optional("Throughput", device.throughput, go::int64)
        .optional("VolumeInitializationRate", device.volume_initialization_rate, go::int32)
        .optional("VolumeSize", device.volume_size.as_deref(), volume_size)
        .optional("VolumeType", device.volume_type.as_ref(), |t| go::text(t.as_str()))
        .end()
}

/// Hashed in its canonical form, so that `1024Gi` equals `1Ti`. Text that is no quantity (the schema lets a bare `Ti` pass)
/// is hashed as it is: EC2 refuses it anyway.
fn volume_size(size: &str) -> u64 {
    match size.parse::<Quantity>() {
        Ok(quantity) => go::text(&quantity.to_string()),
        Err(_) => go::text(size),
    }
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    Struct::new("NetworkInterface")
        .plain_int32("NetworkCardIndex", interface.network_card_index)
        .plain_int32("DeviceIndex", interface.device_index)
        .plain_text("InterfaceType", interface.interface_type.as_str())
        .end()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    Struct::new("MetadataOptions")
        .optional("HTTPEndpoint", options.http_endpoint.as_ref(), |s| go::text(s.as_str()))
        .optional("HTTPProtocolIPv6", options.http_protocol_ipv6.as_ref(), |s| go::text(s.as_str()))
        .optional("HTTPPutResponseHopLimit", options.http_put_response_hop_limit, go::int64)
        .optional("HTTPTokens", options.http_tokens.as_ref(), |s| go::text(s.as_str()))
        .end()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    Struct::new("ConnectionTracking")
        .optional("TCPEstablishedTimeout", tracking.tcp_established_timeout, go::int32)
        .optional("UDPStreamTimeout", tracking.udp_stream_timeout, go::int32)
        .optional("UDPTimeout", tracking.udp_timeout, go::int32)
        .end()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    Struct::new("CPUOptions")
        .optional("NestedVirtualization", options.nested_virtualization.as_ref(), |s| go::text(s.as_str()))
        .end()
}
