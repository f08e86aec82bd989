//! Image aliases, `family@version`: which SSM parameters hold the images, and what each image is for. Pure.

use cloud::derive::Family;
use model::labels;
use model::requirement::Requirement;
use model::requirements::Requirements;

use crate::nodeclass::version::Version;

pub(in crate::nodeclass) const LATEST: &str = "latest";

/// What an image is made for, besides its architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::nodeclass) enum Variant {
    /// No accelerator.
    Standard,
    Nvidia,
    Neuron,
    Windows(Family),
}

/// A parameter that holds an image id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) path: String,
    pub(super) variants: &'static [Variant],
}

/// An alias that names nothing in this cluster, ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported(pub(super) String);

impl Variant {
    pub(super) fn requirements(self) -> Requirements {
        let gpus = labels::INSTANCE_GPU_COUNT;
        let accelerators = labels::INSTANCE_ACCELERATOR_COUNT;
        match self {
            Self::Standard => [Requirement::does_not_exist(accelerators), Requirement::does_not_exist(gpus)]
                .into_iter()
                .collect(),
            Self::Nvidia => [Requirement::exists(gpus)].into_iter().collect(),
            Self::Neuron => [Requirement::exists(accelerators)].into_iter().collect(),
            Self::Windows(family) => {
                let build = family.windows_build().map(|build| Requirement::is(labels::WINDOWS_BUILD, build));
                build.into_iter().chain([Requirement::is(labels::OS, labels::WINDOWS)]).collect()
            }
        }
    }
}

pub(super) fn parameters(
    family: &str,
    version: &str,
    kubernetes: Version,
) -> Result<Vec<Parameter>, Unsupported> {
    match family {
        "al2" if kubernetes >= Version(1, 33) => Err(Unsupported(format!(
            "there are no images of Amazon Linux 2 for Kubernetes {kubernetes}: AL2 ends with 1.32"
        ))),
        "al2" => Ok(al2(version, kubernetes)),
        "al2023" => Ok(al2023(version, kubernetes)),
        "bottlerocket" => Ok(bottlerocket(version, kubernetes)),
        "windows2025" if kubernetes < Version(1, 35) => Err(Unsupported(format!(
            "there are no images of Windows Server 2025 for Kubernetes {kubernetes}: they begin with 1.35"
        ))),
        "windows2019" => Ok(windows("2019", &[Variant::Windows(Family::Windows2019)], kubernetes)),
        "windows2022" => Ok(windows("2022", &[Variant::Windows(Family::Windows2022)], kubernetes)),
        "windows2025" => Ok(windows("2025", &[Variant::Windows(Family::Windows2025)], kubernetes)),
        other => Err(Unsupported(format!("{other} is no image family that this release knows"))),
    }
}

fn al2(version: &str, kubernetes: Version) -> Vec<Parameter> {
    let parameter = |path: &str, name: &str, variants| {
        let image = match version {
            LATEST => "recommended".to_owned(),
            version => format!("{name}-{kubernetes}-{version}"),
        };
        Parameter {
            path: format!("/aws/service/eks/optimized-ami/{kubernetes}/{path}/{image}/image_id"),
            variants,
        }
    };
    vec![
        parameter("amazon-linux-2", "amazon-eks-node", &[Variant::Standard]),
        parameter("amazon-linux-2-arm64", "amazon-eks-arm64-node", &[Variant::Standard]),
        parameter("amazon-linux-2-gpu", "amazon-eks-gpu-node", &[Variant::Neuron, Variant::Nvidia]),
    ]
}

fn al2023(version: &str, kubernetes: Version) -> Vec<Parameter> {
    let kinds: [(&str, &str, &[Variant]); 5] = [
        ("x86_64", "standard", &[Variant::Standard]),
        ("x86_64", "nvidia", &[Variant::Nvidia]),
        ("x86_64", "neuron", &[Variant::Neuron]),
        ("arm64", "standard", &[Variant::Standard]),
        ("arm64", "nvidia", &[Variant::Nvidia]),
    ];
    let parameter = |(arch, kind, variants): (&str, &str, &'static [Variant])| {
        let image = match version {
            LATEST => "recommended".to_owned(),
            version => format!("amazon-eks-node-al2023-{arch}-{kind}-{kubernetes}-{version}"),
        };
        let path = format!(
            "/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{kind}/{image}/image_id"
        );
        Parameter { path, variants }
    };
    kinds.into_iter().map(parameter).collect()
}

fn bottlerocket(version: &str, kubernetes: Version) -> Vec<Parameter> {
    let version = version.trim_start_matches('v');
    let parameter = |kind: &str, arch: &str, variants| Parameter {
        path: format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{kind}/{arch}/{version}/image_id"),
        variants,
    };
    vec![
        parameter("", "x86_64", &[Variant::Standard, Variant::Neuron]),
        parameter("", "arm64", &[Variant::Standard]),
        parameter("-nvidia", "x86_64", &[Variant::Nvidia]),
        parameter("-nvidia", "arm64", &[Variant::Nvidia]),
    ]
}

/// Windows has no pinned versions: the schema allows `latest` only.
fn windows(year: &str, variants: &'static [Variant], kubernetes: Version) -> Vec<Parameter> {
    let path = format!(
        "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
    );
    vec![Parameter { path, variants }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(family: &str, version: &str) -> Vec<String> {
        parameters(family, version, Version(1, 32)).unwrap().into_iter().map(|p| p.path).collect()
    }

    #[test]
    fn parameters_have_the_names_that_aws_publishes() {
        let eks = "/aws/service/eks/optimized-ami/1.32";
        let rocket = "/aws/service/bottlerocket/aws-k8s-1.32";
        assert_eq!(
            paths("al2", "latest"),
            ["amazon-linux-2", "amazon-linux-2-arm64", "amazon-linux-2-gpu"]
                .map(|kind| format!("{eks}/{kind}/recommended/image_id"))
        );
        assert_eq!(
            paths("al2", "v20250101")[1],
            format!("{eks}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.32-v20250101/image_id")
        );
        assert_eq!(
            paths("al2023", "v20250101")[2],
            format!(
                "{eks}/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.32-v20250101/image_id"
            )
        );
        assert_eq!(paths("bottlerocket", "v1.30.0")[0], format!("{rocket}/x86_64/1.30.0/image_id"));
        assert_eq!(paths("bottlerocket", "latest")[3], format!("{rocket}-nvidia/arm64/latest/image_id"));
        assert_eq!(
            paths("windows2022", "latest"),
            ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.32/image_id"]
        );
    }

    #[test]
    fn families_that_have_no_image_for_the_version_are_refused() {
        assert!(parameters("al2", "latest", Version(1, 33)).is_err());
        assert!(parameters("al2", "latest", Version(1, 32)).is_ok());
        assert!(parameters("windows2025", "latest", Version(1, 34)).is_err());
        assert!(parameters("windows2025", "latest", Version(1, 35)).is_ok());
        assert!(parameters("plan9", "latest", Version(1, 35)).is_err());
    }
}
