//! User data: what an instance reads at its first boot to become a node. Pure rendering, one file for each way of booting;
//! nothing here knows EC2 or Kubernetes clients.
//!
//! ```text
//! Boot ─┬─ al2023        MIME: user's entries, then a NodeConfig for nodeadm (the last one wins)
//!       ├─ al2           MIME: user's parts, then a script that runs bootstrap.sh
//!       ├─ bottlerocket  TOML: user's settings, with ours put over them
//!       ├─ windows       PowerShell: user's text, then Start-EKSBootstrap
//!       └─ Custom        the user's text as it is
//! ```

mod al2;
mod al2023;
mod bottlerocket;
mod flags;
mod mime;
mod windows;

use std::collections::BTreeMap;

use api::ec2nodeclass::KubeletConfiguration;
use cloud::derive::Family;

/// The most that EC2 takes, decoded.
pub const LIMIT_BYTES: usize = 16_384;
/// From here on the log warns: nine tenths of the limit.
pub const WARN_BYTES: usize = 14_745;

/// Everything that user data depends on.
#[derive(Debug, Clone, Default)]
pub struct Boot {
    pub cluster_name: String,
    /// URL of the API server.
    pub endpoint: String,
    /// Base64; `None` leaves it to the image.
    pub ca_bundle: Option<String>,
    /// Only nodeadm needs it, and cannot do without.
    pub service_cidr: Option<String>,
    /// As in the class, with `maxPods` and `clusterDNS` filled in where they are known.
    pub kubelet: KubeletConfiguration,
    pub taints: Vec<BootTaint>,
    pub labels: BTreeMap<String, String>,
    /// `spec.userData`.
    pub custom: Option<String>,
    /// Instance store becomes one volume for pods.
    pub raid0: bool,
    /// The image's `ephemeral-storage bind` has to be told what to bind: Bottlerocket before 1.46.
    pub bind_named_directories: bool,
}

/// A taint the kubelet registers its node with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootTaint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

/// What came out, not yet base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserData {
    pub text: String,
    /// Settings of the user's that the image does not know and that were left out.
    pub dropped: Vec<String>,
}

/// Why there is no user data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unrenderable {
    #[error("spec.userData is a MIME document that cannot be read: {0}")]
    Mime(String),
    #[error("spec.userData is not TOML, which Bottlerocket takes: {0}")]
    Toml(String),
    #[error("the cluster's service CIDR is not known yet, and nodes of AL2023 cannot boot without it")]
    NoServiceCidr,
    #[error("the node configuration cannot be written: {0}")]
    Write(String),
}

/// User data for an image of this family.
pub fn render(family: Family, boot: &Boot) -> Result<UserData, Unrenderable> {
    let plain = |text: String| UserData { text, dropped: Vec::new() };
    match family {
        Family::Al2023 => al2023::render(boot).map(plain),
        Family::Al2 => al2::render(boot).map(plain),
        Family::Bottlerocket => bottlerocket::render(boot),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => Ok(plain(windows::render(boot))),
        Family::Custom => Ok(plain(boot.custom.clone().unwrap_or_default())),
    }
}

impl Boot {
    /// The user's own text, unless there is none to speak of.
    fn custom(&self) -> Option<&str> {
        self.custom.as_deref().filter(|text| !text.trim().is_empty())
    }

    fn first_dns(&self) -> Option<&str> {
        self.kubelet.cluster_dns.as_ref()?.first().map(String::as_str)
    }
}
