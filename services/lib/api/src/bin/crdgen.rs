//! Writes the chart `charts/karpenter-crd` from the Rust types: `cargo run -p karpenter-api --bin crdgen`.

use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../charts/karpenter-crd");
    fs::create_dir_all(chart.join("files"))?;
    for (path, content) in api::crd::chart()? {
        fs::write(chart.join(&path), content).map_err(|error| format!("write {path}: {error}"))?;
        println!("charts/karpenter-crd/{path}");
    }
    Ok(())
}
