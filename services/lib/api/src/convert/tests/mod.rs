//! Objects as people write them, read with serde and converted.

mod disruption;
mod nodes;
mod overlays;
mod pods;
mod volumes;

use serde::de::DeserializeOwned;

fn object<T: DeserializeOwned>(yaml: &str) -> T {
    serde_saphyr::from_str(yaml).unwrap()
}
