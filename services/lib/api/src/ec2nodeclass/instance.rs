//! Instance options of an EC2NodeClass: metadata service, connection tracking, processor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::schema::cel;
use crate::text_enum::text_enum;

text_enum! {
    /// A switch as EC2 spells it.
    pub enum Switch {
        /// On.
        Enabled = "enabled",
        /// Off.
        Disabled = "disabled",
    }
}

text_enum! {
    /// Whether the metadata service asks for a session token.
    pub enum HttpTokens {
        /// Always (IMDSv2 only).
        Required = "required",
        /// Requests without one are served too.
        Optional = "optional",
    }
}

/// How the instance metadata service can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOptions {
    /// Whether the service is there at all.
    #[serde(default = "enabled", skip_serializing_if = "Option::is_none")]
    pub http_endpoint: Option<Switch>,
    /// Whether it has an IPv6 address.
    #[serde(default = "disabled", rename = "httpProtocolIPv6", skip_serializing_if = "Option::is_none")]
    pub http_protocol_ipv6: Option<Switch>,
    /// Number of network hops an answer may take. With 1, pods without host network get none.
    #[serde(default = "one_hop", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether requests need a session token (IMDSv2).
    #[serde(default = "required", skip_serializing_if = "Option::is_none")]
    pub http_tokens: Option<HttpTokens>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self {
            http_endpoint: enabled(),
            http_protocol_ipv6: disabled(),
            http_put_response_hop_limit: one_hop(),
            http_tokens: required(),
            extra: Extra::new(),
        }
    }
}

impl MetadataOptions {
    pub(super) fn when_absent() -> Option<Self> {
        Some(Self::default())
    }
}

fn enabled() -> Option<Switch> {
    Some(Switch::Enabled)
}

fn disabled() -> Option<Switch> {
    Some(Switch::Disabled)
}

fn one_hop() -> Option<i64> {
    Some(1)
}

fn required() -> Option<HttpTokens> {
    Some(HttpTokens::Required)
}

/// How long idle connections are tracked by security groups, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = cel(
    "has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",
    "at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout must be set",
))]
pub struct ConnectionTracking {
    /// Seconds for established TCP connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 432_000))]
    pub tcp_established_timeout: Option<i32>,
    /// Seconds for UDP flows with more than one request and answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 180))]
    pub udp_stream_timeout: Option<i32>,
    /// Seconds for UDP flows in one direction or with a single exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 30, max = 60))]
    pub udp_timeout: Option<i32>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Processor options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    /// Whether virtual machines can run on the node. Enabled allows only instance types that have the feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Switch>,
    /// Fields of a newer release.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
