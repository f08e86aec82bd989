use std::time::Duration;

use cloud::CatalogSource;
use cloud::ErrorKind;
use cloud::Launcher;
use cloud::NodeClassSource;
use cloud::launch::FleetTarget;
use cloud::select::{Select, TagFilter};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::server::{REGION, connect, connect_with};

#[tokio::test]
async fn a_failing_page_fails_the_listing() {
    let local = connect(REGION, "page-fault").await;
    let rule = |code: &str| json!({"action": "DescribeInstanceTypeOfferings", "accessKey": "page-fault", "code": code});
    let whole = local.aws.offerings().await.unwrap();
    let pages = local.calls("DescribeInstanceTypeOfferings").await;
    assert!(pages >= 3, "{pages} pages");
    // Slow enough to switch the fault on after the first page.
    let slow = json!({"action": "DescribeInstanceTypeOfferings", "accessKey": "page-fault", "ms": 300});
    local.control("PUT", "/latency", slow).await;
    let (listing, ()) = tokio::join!(local.aws.offerings(), async {
        while local.calls("DescribeInstanceTypeOfferings").await == pages {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        local.control("PUT", "/errors", rule("InvalidParameterValue")).await;
    });
    let error = listing.unwrap_err();
    assert_eq!(
        (error.kind, error.operation),
        (ErrorKind::Invalid, "DescribeInstanceTypeOfferings"),
        "{error}"
    );
    local.control("DELETE", "/errors", json!({"action": "DescribeInstanceTypeOfferings"})).await;
    assert_eq!(local.aws.offerings().await.unwrap(), whole);
}

#[tokio::test]
async fn an_empty_first_page_does_not_end_a_listing() {
    let local = connect(REGION, "empty-page").await;
    local.control("PUT", "/partial-pages", json!({"action": "DescribeSubnets", "size": 0})).await;
    let tags = vec![TagFilter::is("karpenter.sh/discovery", crate::server::CLUSTER)];
    let subnets = local.aws.subnets(Select::Tags(tags)).await.unwrap();
    assert_eq!(subnets.len(), 4);
    local.control("DELETE", "/partial-pages", json!({"action": "DescribeSubnets"})).await;
}

#[tokio::test]
async fn passing_faults_are_retried_and_lasting_ones_told() {
    let local = connect(REGION, "passing").await;
    let fault = |count: u32| json!({"action": "DescribeAvailabilityZones", "accessKey": "passing", "code": "InternalError", "status": 500, "count": count});
    local.control("PUT", "/errors", fault(2)).await;
    assert!(local.aws.zones().await.is_ok());
    assert_eq!(local.calls("DescribeAvailabilityZones").await, 3);
    local.control("PUT", "/errors", fault(50)).await;
    let error = local.aws.zones().await.unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (ErrorKind::ServerFault, "InternalError"));
    assert_eq!(local.calls("DescribeAvailabilityZones").await, 6);
}

#[tokio::test]
async fn throttling_is_told_as_throttling_by_every_protocol() {
    let local = connect(REGION, "all-throttled").await;
    local.control("PUT", "/throttle", json!({"action": "*", "rate": 0, "accessKey": "all-throttled"})).await;
    let network = cloud_errors(&local).await;
    for (name, error) in network {
        assert_eq!(error.map(|e| e.kind), Some(ErrorKind::Throttled), "{name}");
    }
}

async fn cloud_errors(local: &crate::server::Local) -> Vec<(&'static str, Option<cloud::CloudError>)> {
    use cloud::{Queue, Rules};
    vec![
        ("EC2", local.aws.zones().await.err()),
        ("SSM", local.aws.parameter("/x").await.err()),
        ("EKS", local.aws.cluster("x").await.err()),
        ("IAM", local.aws.instance_profile("x").await.err()),
        ("STS", local.aws.identity().await.err()),
        ("SQS", local.aws.find("x").await.err()),
        ("EventBridge", local.aws.rule("x").await.err()),
        ("Pricing", local.aws.on_demand_prices().await.err()),
    ]
}

#[tokio::test]
async fn missing_rights_are_told_as_such_by_every_protocol() {
    let local = connect(REGION, "powerless").await;
    local.control("PUT", "/permissions", json!({"accessKey": "powerless", "actions": ["Nothing"]})).await;
    for (name, error) in cloud_errors(&local).await {
        assert_eq!(error.map(|e| e.kind), Some(ErrorKind::Unauthorized), "{name}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_unreachable() {
    let local = connect_with(REGION, "nobody", |options| {
        options.endpoint = Some("http://127.0.0.1:1".into());
        options.attempts = 1;
    })
    .await;
    let error = local.aws.zones().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_refused_launch_call_names_its_reason_and_is_not_repeated() {
    let local = connect(REGION, "fleet-fault").await;
    let network = local.template("fleet-fault").await;
    let fault = json!({"action": "CreateFleet", "accessKey": "fleet-fault", "code": "UnauthorizedOperation"});
    local.control("PUT", "/errors", fault).await;
    let request = network.fleet("fleet-fault", FleetTarget::Spot, &["m5.large"]);
    let error = local.aws.create_fleet(request).await.unwrap_err();
    assert_eq!(error.launch_reason().0.as_str(), "Unauthorized");
    assert_eq!(local.calls("CreateFleet").await, 1);
}

#[tokio::test]
async fn calls_go_to_the_region_and_carry_our_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let local = connect_with("ap-southeast-2", "agent", |options| {
        options.endpoint = Some(endpoint);
        options.attempts = 1;
        options.version = "9.8.7".into();
    })
    .await;
    assert_eq!(CatalogSource::region(&local.aws), "ap-southeast-2");
    let (answer, head) = tokio::join!(local.aws.zones(), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = vec![0; 16_384];
        let length = stream.read(&mut read).await.unwrap();
        stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&read[..length]).to_lowercase()
    });
    assert_eq!(answer.unwrap_err().kind, ErrorKind::ServerFault);
    assert!(head.contains("app/karpenter.sh-9.8.7"), "{head}");
    assert!(head.contains("/ap-southeast-2/ec2/"), "{head}");
}
