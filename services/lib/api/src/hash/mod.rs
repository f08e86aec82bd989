//! Drift hashes: the numbers that tell whether a node was made from the current NodePool and EC2NodeClass.
//!
//! Bit for bit the reference's, which hashes its Go structures by reflection, so that taking over a running cluster drifts
//! no node. Names of Go types and fields are therefore part of the input; `nodepool` and `ec2nodeclass` spell them out.

mod ec2nodeclass;
mod go;
mod nodepool;

use crate::ec2nodeclass::Ami;
use crate::{EC2NodeClassSpec, NodePool};

/// Version of the NodePool hash, stored beside it.
pub const NODE_POOL_VERSION: &str = "v3";
/// Version of the EC2NodeClass hash, stored beside it.
pub const EC2_NODE_CLASS_VERSION: &str = "v5";

/// Hash of a NodePool: its template without requirements. As annotated: decimal.
pub fn node_pool(pool: &NodePool) -> String {
    nodepool::template(&pool.spec.template).to_string()
}

/// Hash of an EC2NodeClass. `family` is the resolved image family's name, `ca_bundle` the cluster's base64 CA bundle, empty if
/// there is none. As annotated: decimal.
pub fn ec2_node_class(spec: &EC2NodeClassSpec, family: &str, ca_bundle: &str) -> String {
    (ec2nodeclass::spec(spec) ^ go::text(family) ^ go::text(ca_bundle)).to_string()
}

/// The number in the name of the instance profile that releases of the reference before 1.5 made for a class, one a class and
/// region and without a path. Decimal.
pub fn older_instance_profile(region: &str, class: &str) -> String {
    go::text(&format!("{region}{class}")).to_string()
}

/// Names the set of images that a class resolved to, whatever their order: what nodes report under it holds for these images
/// only. Hexadecimal.
pub fn images(amis: &[Ami]) -> String {
    let mut ids: Vec<&str> = amis.iter().map(|ami| ami.id.as_str()).collect();
    ids.sort_unstable();
    format!("{:016x}", go::text(&ids.join(",")))
}
