//! `--feature-gates`, as the services take it: `Name=true,Other=false`.

/// Gates that a plan depends on. Others of the reference are accepted and change nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    pub reserved_capacity: bool,
    pub node_overlay: bool,
    pub capacity_buffer: bool,
    pub spot_to_spot_consolidation: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            reserved_capacity: true,
            node_overlay: false,
            capacity_buffer: false,
            spot_to_spot_consolidation: false,
        }
    }
}

const WITHOUT_EFFECT: [&str; 2] = ["NodeRepair", "StaticCapacity"];

impl std::str::FromStr for Features {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut features = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} is not Name=true or Name=false"))?;
            let on: bool = value
                .trim()
                .to_ascii_lowercase()
                .parse()
                .map_err(|_| format!("{value:?} of feature gate {name} is neither true nor false"))?;
            match name.trim() {
                "ReservedCapacity" => features.reserved_capacity = on,
                "NodeOverlay" => features.node_overlay = on,
                "CapacityBuffer" => features.capacity_buffer = on,
                "SpotToSpotConsolidation" => features.spot_to_spot_consolidation = on,
                other if WITHOUT_EFFECT.contains(&other) => {}
                other => {
                    return Err(format!(
                        "feature gate {other:?} is unknown; there are ReservedCapacity, NodeOverlay, CapacityBuffer, \
                         SpotToSpotConsolidation, NodeRepair and StaticCapacity"
                    ));
                }
            }
        }
        Ok(features)
    }
}

#[cfg(test)]
mod tests {
    use super::Features;

    #[test]
    fn gates_are_read_as_the_services_read_them() {
        let features: Features = "NodeOverlay=true, ReservedCapacity=False,NodeRepair=true".parse().unwrap();
        assert!(features.node_overlay && !features.reserved_capacity && !features.capacity_buffer);
        assert_eq!("".parse::<Features>().unwrap(), Features::default());
    }

    #[test]
    fn unknown_gates_and_values_are_refused_by_name() {
        assert!("NodeOverlays=true".parse::<Features>().unwrap_err().contains("NodeOverlays"));
        assert!("NodeOverlay=maybe".parse::<Features>().unwrap_err().contains("maybe"));
        assert!("NodeOverlay".parse::<Features>().is_err());
    }
}
