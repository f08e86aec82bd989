//! Whatever bytes come in, a catalogue is read or refused with a place, never with a panic.

use proptest::prelude::*;

use super::parse;

const PLAN_FORMAT: &str = r#"{"region": "us-east-1", "instanceTypes": [
 {"name": "m5.large", "labels": {"kubernetes.io/arch": "amd64"}, "capacity": {"cpu": "2", "memory": "7577Mi", "pods": 29},
  "overhead": {"cpu": "70m"}, "offerings": [
   {"zone": "us-east-1a", "zoneId": "use1-az1", "capacityType": "spot", "price": 0.0351, "available": true},
   {"zone": "us-east-1a", "capacityType": "reserved", "price": 0, "reservationId": "cr-1", "reservationCapacity": 2}]}]}"#;

const DESCRIBED: &str = r#"{"InstanceTypes": [{"InstanceType": "m5.large", "Hypervisor": "nitro",
 "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "SustainedClockSpeedInGhz": 3.1, "Manufacturer": "Intel"},
 "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192},
 "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10, "NetworkCards": [{"MaximumNetworkInterfaces": 3}]}}]}"#;

fn has_a_place(text: &str) -> Result<(), TestCaseError> {
    if let Err(error) = parse(text, "catalogue.json") {
        let lines = text.lines().count().max(1) + 1;
        prop_assert!((1..=lines).contains(&error.line), "line {} of {lines}: {error}", error.line);
        prop_assert!(!error.problem.is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        has_a_place(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn mutated_catalogues_never_panic(
        described in any::<bool>(),
        cuts in prop::collection::vec((0.0..1.0_f64, 0_usize..8, "[ -~]{0,4}"), 1..5)
    ) {
        let mut text = if described { DESCRIBED } else { PLAN_FORMAT }.to_owned();
        for (place, length, instead) in cuts {
            let at = (place * text.len() as f64) as usize;
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &instead);
        }
        has_a_place(&text)?;
    }
}

#[test]
fn the_catalogues_that_are_mutated_are_sound_themselves() {
    for text in [PLAN_FORMAT, DESCRIBED] {
        assert_eq!(parse(text, "catalogue.json").unwrap().types.len(), 1);
    }
}
