//! Frames per second of the live page with 5,000 nodes and 150,000 pods, as one line of JSON: `{"fps": 60.1, …}`.

use anyhow::Result;

fn main() -> Result<()> {
    println!("{}", cli::ui::frames::measure()?);
    Ok(())
}
