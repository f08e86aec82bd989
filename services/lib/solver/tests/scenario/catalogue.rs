//! Instance types of scenarios: the linear ones of the reference's own benchmark, and families like those of EC2.

use super::{Labels, labels};

pub const ZONES: [(&str, &str); 3] =
    [("us-east-1a", "use1-az1"), ("us-east-1b", "use1-az2"), ("us-east-1c", "use1-az4")];

#[derive(Clone, Debug)]
pub struct Kind {
    pub name: String,
    pub labels: Labels,
    pub milli_cpu: i64,
    pub mib: i64,
    pub pods: i64,
    pub gpus: i64,
    pub overhead_milli_cpu: i64,
    pub overhead_mib: i64,
    /// On-demand price in millionths of a dollar an hour, and zones it is sold in.
    pub price: i64,
    pub on_demand_zones: usize,
    /// Spot price by zone.
    pub spot: Vec<i64>,
}

impl Kind {
    pub fn allocatable(&self) -> (i64, i64) {
        (self.milli_cpu - self.overhead_milli_cpu, self.mib - self.overhead_mib)
    }
}

fn own_labels(name: &str, arch: &str, cpus: i64, mib: i64) -> Labels {
    let (family, size) = name.split_once('.').unwrap_or((name, ""));
    let category: String = family.chars().take_while(char::is_ascii_alphabetic).collect();
    let generation: String = family.chars().filter(char::is_ascii_digit).collect();
    labels(&[
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", "linux"),
        ("karpenter.k8s.aws/instance-family", family),
        ("karpenter.k8s.aws/instance-size", size),
        ("karpenter.k8s.aws/instance-category", &category),
        ("karpenter.k8s.aws/instance-generation", &generation),
        ("karpenter.k8s.aws/instance-cpu", &cpus.to_string()),
        ("karpenter.k8s.aws/instance-memory", &mib.to_string()),
    ])
}

/// `count` types of i CPUs, 2i GiB and 10i pods; spot in two zones, on demand in three.
pub fn linear(count: i64) -> Vec<Kind> {
    (1..=count)
        .map(|i| {
            let name = format!("fake{i}.x{i}");
            let price = 50_000 * i;
            Kind {
                labels: own_labels(&name, "amd64", i, 2048 * i),
                name,
                milli_cpu: 1000 * i,
                mib: 2048 * i,
                pods: 10 * i,
                gpus: 0,
                overhead_milli_cpu: 100,
                overhead_mib: 10,
                price,
                on_demand_zones: 3,
                spot: vec![price * 7 / 10, price * 7 / 10],
            }
        })
        .collect()
}

/// Family, architecture, GiB for each vCPU, price of a vCPU-hour in millionths, spot share in percent.
const FAMILIES: [(&str, &str, i64, i64, i64); 15] = [
    ("c5", "amd64", 2, 42_500, 38),
    ("c6i", "amd64", 2, 42_500, 42),
    ("c6a", "amd64", 2, 38_250, 41),
    ("c7g", "arm64", 2, 36_250, 37),
    ("c7i", "amd64", 2, 44_625, 36),
    ("m5", "amd64", 4, 48_000, 44),
    ("m6i", "amd64", 4, 48_000, 40),
    ("m6a", "amd64", 4, 43_200, 43),
    ("m7g", "arm64", 4, 40_800, 39),
    ("m7i", "amd64", 4, 50_400, 37),
    ("r5", "amd64", 8, 63_000, 35),
    ("r6i", "amd64", 8, 63_000, 38),
    ("r6a", "amd64", 8, 56_700, 36),
    ("r7g", "arm64", 8, 53_550, 37),
    ("r7i", "amd64", 8, 66_150, 34),
];

const SIZES: [(&str, i64, i64); 8] = [
    ("large", 2, 29),
    ("xlarge", 4, 58),
    ("2xlarge", 8, 58),
    ("4xlarge", 16, 234),
    ("8xlarge", 32, 234),
    ("12xlarge", 48, 234),
    ("16xlarge", 64, 737),
    ("24xlarge", 96, 737),
];

/// 120 types of fifteen families, and three with GPUs.
pub fn families() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (f, (family, arch, ratio, rate, spot)) in FAMILIES.iter().enumerate() {
        for (s, (size, cpus, pods)) in SIZES.iter().enumerate() {
            kinds.push(kind(
                &format!("{family}.{size}"),
                arch,
                *cpus,
                cpus * ratio,
                *pods,
                rate * cpus,
                *spot,
                f * 8 + s,
            ));
        }
    }
    for (n, (size, cpus, gpus, price)) in
        [("xlarge", 4, 1, 1_006_000), ("12xlarge", 48, 4, 5_672_000), ("48xlarge", 192, 8, 16_288_000)]
            .iter()
            .enumerate()
    {
        let mut gpu = kind(&format!("g5.{size}"), "amd64", *cpus, cpus * 4, 234, *price, 60, n);
        gpu.gpus = *gpus;
        kinds.push(gpu);
    }
    kinds
}

/// As many types as asked for: the families again and again, each time a little dearer, as if of more generations.
pub fn many(count: usize) -> Vec<Kind> {
    let base: Vec<Kind> = families().into_iter().filter(|k| k.gpus == 0).collect();
    (0..count)
        .map(|n| {
            let (round, index) = (i64::try_from(n / base.len()).unwrap_or(0), n % base.len());
            let mut kind = base[index].clone();
            if round > 0 {
                let name = kind.name.clone();
                let (family, size) = name.split_once('.').unwrap_or((&name, ""));
                kind.name = format!("{family}v{round}.{size}");
                kind.labels
                    .insert("karpenter.k8s.aws/instance-family".to_owned(), format!("{family}v{round}"));
                kind.price = kind.price * (100 + 3 * round) / 100;
                kind.spot = kind.spot.iter().map(|p| p * (100 + 3 * round) / 100).collect();
            }
            kind
        })
        .collect()
}

#[expect(clippy::too_many_arguments, reason = "a row of a table")]
fn kind(name: &str, arch: &str, cpus: i64, gib: i64, pods: i64, price: i64, spot: i64, salt: usize) -> Kind {
    let mib = gib * 1024;
    let quarter_millis =
        240 + 40 * (cpus - 1).clamp(0, 1) + 20 * (cpus - 2).clamp(0, 2) + 10 * (cpus - 4).max(0);
    let swing = |zone: usize| 90 + i64::try_from((salt * 7 + zone * 11) % 21).unwrap_or(0);
    Kind {
        name: name.to_owned(),
        labels: own_labels(name, arch, cpus, mib),
        milli_cpu: cpus * 1000,
        mib: mib * 925 / 1000,
        pods,
        gpus: 0,
        overhead_milli_cpu: quarter_millis / 4,
        overhead_mib: 255 + 11 * pods + 100,
        price,
        on_demand_zones: 3,
        spot: (0..3).map(|zone| price * spot / 100 * swing(zone) / 100).collect(),
    }
}
