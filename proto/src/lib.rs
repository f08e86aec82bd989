//! The gRPC contracts between the five services, as generated Rust, and their descriptors for reflection.
//!
//! Only wire types: nothing here decides anything, and prost types go no further than a service's `grpc.rs`. The `.proto`
//! files under `karpenter/` are the documentation; `tests/` fails on a change that breaks the wire or leaves something
//! without a comment.

// Generated code: its doc comments and visibility are prost's.
#![allow(clippy::doc_lazy_continuation, reason = "comments come from the .proto files")]
#![allow(clippy::large_enum_variant, reason = "generated oneofs are not boxed")]
#![allow(clippy::allow_attributes_without_reason, reason = "generated code")]
#![allow(unreachable_pub, reason = "generated code")]

/// Descriptors of all our files, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// `karpenter.types`: messages shared by several services.
pub mod types {
    pub mod v1 {
        tonic::include_proto!("karpenter.types.v1");
    }
}
/// `karpenter.provisioner`
pub mod provisioner {
    pub mod v1 {
        tonic::include_proto!("karpenter.provisioner.v1");
    }
}
/// `karpenter.disruption`
pub mod disruption {
    pub mod v1 {
        tonic::include_proto!("karpenter.disruption.v1");
    }
}
/// `karpenter.termination`
pub mod termination {
    pub mod v1 {
        tonic::include_proto!("karpenter.termination.v1");
    }
}
/// `karpenter.interruptionwatcher`
pub mod interruptionwatcher {
    pub mod v1 {
        tonic::include_proto!("karpenter.interruptionwatcher.v1");
    }
}
/// `karpenter.pricingcache`
pub mod pricingcache {
    pub mod v1 {
        tonic::include_proto!("karpenter.pricingcache.v1");
    }
}
/// `karpenter.shadow`: served by all five in shadow mode.
pub mod shadow {
    pub mod v1 {
        tonic::include_proto!("karpenter.shadow.v1");
    }
}
