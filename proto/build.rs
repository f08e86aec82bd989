//! Compiles the contracts with protox, so that no protoc has to be installed, and keeps their descriptors for reflection.

use std::path::PathBuf;

use prost::Message as _;

const FILES: [&str; 7] = [
    "karpenter/types/v1/types.proto",
    "karpenter/provisioner/v1/provisioner.proto",
    "karpenter/disruption/v1/disruption.proto",
    "karpenter/termination/v1/termination.proto",
    "karpenter/interruptionwatcher/v1/interruption_watcher.proto",
    "karpenter/pricingcache/v1/pricing_cache.proto",
    "karpenter/shadow/v1/shadow.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=karpenter");
    let descriptors = protox::compile(FILES, ["."])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
