use model::catalog::{CapacityType, InstanceType};
use model::labels;
use model::resources::{CPU, MEMORY, NVIDIA_GPU, PODS};

use super::{builtin, parse};

fn label<'a>(kind: &'a InstanceType, key: &str) -> Option<&'a str> {
    kind.requirements.get(key).and_then(|r| r.single())
}

#[test]
fn every_row_of_the_built_in_table_is_understood() {
    let rows = include_str!("../../data/catalogue.tsv").lines().filter(|l| !l.starts_with('#')).count() - 1;
    let catalogue = builtin();
    assert_eq!(catalogue.types.len(), rows);
    assert!(rows > 1000, "only {rows} types");
    for kind in catalogue.types.iter() {
        assert!(!kind.offerings.is_empty(), "{} is sold nowhere", kind.name);
        assert!(kind.overhead.get(CPU) < kind.capacity.get(CPU), "{}", kind.name);
        assert!(kind.offerings.iter().all(|o| o.price.get() > 0), "{} is for free", kind.name);
    }
}

#[test]
fn a_type_of_the_built_in_table_is_what_a_node_of_it_reports() {
    let catalogue = builtin();
    let large = catalogue.types.iter().find(|t| &*t.name == "m5.large").unwrap();
    assert_eq!(large.capacity.get(MEMORY).to_string(), "7577Mi");
    assert_eq!(large.overhead.get(MEMORY).to_string(), "674Mi");
    assert_eq!(large.overhead.get(CPU).to_string(), "70m");
    assert_eq!(large.capacity.get(PODS).to_string(), "29");
    assert_eq!(label(large, labels::INSTANCE_CATEGORY), Some("m"));
    assert_eq!(label(large, labels::INSTANCE_GENERATION), Some("5"));
    let on_demand = large.offerings.iter().find(|o| o.capacity_type == CapacityType::OnDemand).unwrap();
    assert_eq!(on_demand.price.to_string(), "0.096");
    let gpus = catalogue.types.iter().find(|t| &*t.name == "p4d.24xlarge").unwrap();
    assert_eq!(gpus.capacity.get(NVIDIA_GPU).to_string(), "8");
    assert_eq!(label(gpus, labels::INSTANCE_GPU_NAME), Some("a100"));
}

#[test]
fn what_aws_describes_gets_prices_and_zones_of_the_built_in_table() {
    let text = r#"{"InstanceTypes": [
      {"InstanceType": "m5.large", "Hypervisor": "nitro", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "Manufacturer": "Intel"},
       "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192},
       "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}},
      {"InstanceType": "m5.99xlarge", "VCpuInfo": {"DefaultVCpus": 396}, "MemoryInfo": {"SizeInMiB": 1622016}},
      {"InstanceType": "zz1.large", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 8192}}]}"#;
    let catalogue = parse(text, "described.json").unwrap();
    let names: Vec<&str> = catalogue.types.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["m5.large", "m5.99xlarge"]);
    let own = builtin();
    let known = own.types.iter().find(|t| &*t.name == "m5.large").unwrap();
    assert_eq!(catalogue.types[0].offerings, known.offerings);
    assert_eq!(catalogue.types[0].capacity, known.capacity);
    let scaled =
        catalogue.types[1].offerings.iter().find(|o| o.capacity_type == CapacityType::OnDemand).unwrap();
    assert_eq!(scaled.price.to_string(), "19.008");
    assert!(catalogue.remarks[0].contains("zz1.large"), "{:?}", catalogue.remarks);
}

#[test]
fn mistakes_in_a_catalogue_name_line_type_and_field() {
    let text = "{\"instanceTypes\": [\n{\"name\": \"a.large\", \"offerings\": []},\n{\"name\": \"b.large\",\n \"capacity\": {\"cpu\": \"two\"}}]}";
    let error = parse(text, "c.json").unwrap_err();
    assert_eq!((error.line, error.object.as_str()), (3, "type b.large"));
    assert_eq!(error.field, "instanceTypes[1].capacity[\"cpu\"]");
    let text = "{\"instanceTypes\": [\n{\"name\": \"a.large\", \"offerings\": [{\"zone\": \"z\", \"capacityType\": \"cheap\", \"price\": 1}]}]}";
    assert_eq!(parse(text, "c.json").unwrap_err().field, "instanceTypes[0].offerings[0].capacityType");
    let text = "{\"instanceTypes\": [\n{\"name\": 5}]}";
    let error = parse(text, "c.json").unwrap_err();
    assert_eq!((error.line, error.field.as_str()), (2, "instanceTypes[0].name"));
    assert_eq!(parse("{}", "c.json").unwrap_err().field, "instanceTypes");
    assert_eq!(parse("[1,\n2", "c.json").unwrap_err().line, 1);
}
