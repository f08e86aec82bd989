//! Image families: what differs between them for a node's capacity and reservations.

/// `spec.amiFamily`. A name this release does not know behaves as AL2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Al2,
    Al2023,
    Bottlerocket,
    Windows2019,
    Windows2022,
    Windows2025,
    Custom,
}

impl Family {
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
        Self::Custom,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
            Self::Custom => "Custom",
        }
    }

    pub fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|f| f.as_str() == text).unwrap_or(Self::Al2)
    }

    /// Value of the Windows build label.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// kube-reserved memory follows the addresses a node could have, whatever `maxPods` says. For the others it follows
    /// the pods capacity.
    pub(super) fn reserves_by_addresses(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    pub(super) fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    pub(super) fn limits_pods_by_addresses(self) -> bool {
        !self.is_windows()
    }

    /// The device that holds pods' ephemeral storage; unknown for custom images.
    pub fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// Size of the ephemeral device where the node class gives none.
    pub(super) fn ephemeral_gib(self) -> i64 {
        if self.is_windows() { 50 } else { 20 }
    }

    /// Volumes of a node whose class lists none: device and GiB, all gp3 and encrypted. Empty: the image decides.
    pub fn default_volumes(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Al2 | Self::Al2023 => &[("/dev/xvda", 20)],
            Self::Bottlerocket => &[("/dev/xvda", 4), ("/dev/xvdb", 20)],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => &[("/dev/sda1", 50)],
            Self::Custom => &[],
        }
    }
}
