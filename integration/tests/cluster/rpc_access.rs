//! Who may call whom: services with their own tokens, people with grpcurl, and strangers.

mod ipv6;
mod trust;

use anyhow::{Context, Result, ensure};
use integration::kubernetes::namespace;
use integration::rpc::{Impersonation, grpcurl};
use integration::{Service, Stack, Test, eventually, test};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use proto::pricingcache::v1::pricing_cache_client::PricingCacheClient;
use proto::pricingcache::v1::{ListUnavailableRequest, ReportUnavailableRequest};
use tonic::Code;

use ipv6::services_reach_each_other_over_ipv6_alone;
use trust::a_malformed_trust_config_map_is_survived_and_corrected;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("rpc_access", alone, a_service_reaches_another_and_a_third_is_refused),
        test!("rpc_access", alone, a_token_that_is_not_for_us_is_refused),
        test!("rpc_access", alone, a_token_for_one_service_is_refused_at_every_other),
        test!("rpc_access", alone, people_need_one_grant_to_read_and_another_to_change_something),
        test!("rpc_access", alone, services_reach_each_other_over_ipv6_alone),
        test!("rpc_access", alone, a_malformed_trust_config_map_is_survived_and_corrected),
        test!("rpc_access", alone, a_wrong_flag_ends_the_process_with_one_line_and_status_64),
    ]
}

/// Each of them finds what it needs when it starts.
const ORDER: [&str; 5] =
    ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
const REPORT: &str = "karpenter.pricingcache.v1.PricingCache/ReportUnavailable";
const LIST: &str = "karpenter.pricingcache.v1.PricingCache/ListUnavailable";

/// Whether the call got past authentication and the access table, whatever its handler said then.
fn was_let_in(code: Code) -> bool {
    !matches!(code, Code::Unauthenticated | Code::PermissionDenied | Code::Unavailable)
}

async fn report_as(stack: &Stack, caller: runtime::Service) -> Result<Code> {
    let caller = Impersonation::new(stack, caller, runtime::Service::PricingCache).await?;
    let mut client = PricingCacheClient::new(caller.peers.any());
    let answer = client.report_unavailable(ReportUnavailableRequest::default()).await;
    Ok(answer.map_or_else(|status| status.code(), |_| Code::Ok))
}

async fn a_service_reaches_another_and_a_third_is_refused(stack: Stack) -> Result<()> {
    let callee = Service::start(&stack, "pricing-cache", 1, &[])?;
    let allowed = report_as(&stack, runtime::Service::Provisioner).await?;
    let refused = report_as(&stack, runtime::Service::Termination).await?;
    let refusals = callee.metric("karpenter_rpc_refused_total", "")?;
    callee.stop(&stack)?;
    ensure!(was_let_in(allowed), "the provisioner was answered {allowed:?}");
    ensure!(refused == Code::PermissionDenied, "termination was answered {refused:?}");
    ensure!(refusals >= 1.0, "the refusal was not counted");
    Ok(())
}

async fn a_token_that_is_not_for_us_is_refused(stack: Stack) -> Result<()> {
    let callee = Service::start(&stack, "pricing-cache", 1, &[])?;
    // A token of the right account for the API server's own audience, and text that is no token at all.
    let other_audience = stack.token("provisioner", &[]).await?;
    for (what, text) in [("another audience", other_audience.as_str()), ("garbage", "not-a-token")] {
        let (from, to) = (runtime::Service::Provisioner, runtime::Service::PricingCache);
        let caller = Impersonation::with_token(&stack, from, to, text).await?;
        let mut client = PricingCacheClient::new(caller.peers.any());
        let answer = client.list_unavailable(ListUnavailableRequest {}).await;
        let status = answer.err().with_context(|| format!("{what}: accepted"))?;
        ensure!(status.code() == Code::Unauthenticated, "{what}: {status:?}");
    }
    let bare = grpcurl(&stack, None, &["-d", "{}", &callee.grpc, LIST])?;
    callee.stop(&stack)?;
    let said = String::from_utf8_lossy(&bare.stderr);
    ensure!(said.contains("Unauthenticated"), "without a token: {said}");
    Ok(())
}

/// What an intruder in one service could do with the tokens that are shown to it, and with those that the service itself shows.
async fn a_token_for_one_service_is_refused_at_every_other(stack: Stack) -> Result<()> {
    let read = |service| match service {
        runtime::Service::Provisioner => "karpenter.provisioner.v1.Provisioner/GetSnapshot",
        runtime::Service::Disruption => "karpenter.disruption.v1.Disruption/ListCandidates",
        runtime::Service::Termination => "karpenter.termination.v1.Termination/ListDrains",
        runtime::Service::InterruptionWatcher => {
            "karpenter.interruptionwatcher.v1.InterruptionWatcher/ListEvents"
        }
        runtime::Service::PricingCache => LIST,
    };
    let running: Vec<Service> =
        ORDER.iter().map(|name| Service::start(&stack, name, 1, &[])).collect::<Result<_>>()?;
    let mut wrong = Vec::new();
    let tokens = tokens(&stack).await?;
    for (owner, made_for, token) in &tokens {
        for (name, callee) in ORDER.iter().zip(&running) {
            let shown_to = runtime::Service::ALL.into_iter().find(|service| service.as_str() == *name);
            let shown_to = shown_to.context("a service")?;
            let output = grpcurl(&stack, Some(token), &["-d", "{}", &callee.grpc, read(shown_to)])?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if said.contains("Unauthenticated") == (*made_for == shown_to) {
                wrong.push(format!("a token of {owner} for {made_for}, shown to {shown_to}: {said}"));
            }
        }
    }
    running.iter().rev().try_for_each(|service| service.stop(&stack))?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} tokens were each shown to {} services", tokens.len(), running.len());
    Ok(())
}

/// A person's tokens and those that the running services show, by owner and by the callee that they are made for.
async fn tokens(stack: &Stack) -> Result<Vec<(String, runtime::Service, String)>> {
    let mut tokens = Vec::new();
    for callee in runtime::Service::ALL {
        tokens.push(("a person".to_owned(), callee, stack.token("operator", &[&callee.audience()]).await?));
        for owner in runtime::Service::ALL.into_iter().filter(|owner| *owner != callee) {
            let file = stack.dir().join("sa").join(owner.as_str()).join("rpc").join(callee.as_str());
            let token = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            tokens.push((owner.to_string(), callee, token.trim().to_owned()));
        }
    }
    Ok(tokens)
}

async fn people_need_one_grant_to_read_and_another_to_change_something(stack: Stack) -> Result<()> {
    let callee = Service::start(&stack, "pricing-cache", 1, &[])?;
    let client = stack.admin().await?;
    let space = namespace(&client, "people").await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &space);
    let person = ServiceAccount {
        metadata: ObjectMeta { name: Some("person".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    accounts.create(&PostParams::default(), &person).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![runtime::Service::PricingCache.audience()],
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let issued = accounts.create_token_request("person", &PostParams::default(), &request).await?;
    let token = issued.status.context("a token was issued")?.token;
    let said = |method: &str| -> Result<String> {
        let output = grpcurl(&stack, Some(&token), &["-d", "{}", &callee.grpc, method])?;
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    };

    let listed = grpcurl(&stack, None, &[&callee.grpc, "list"])?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(names.contains("karpenter.pricingcache.v1.PricingCache"), "reflection lists {names:?}");
    let health = grpcurl(&stack, None, &[&callee.grpc, "grpc.health.v1.Health/Check"])?;
    let healthy = String::from_utf8_lossy(&health.stdout).into_owned();
    ensure!(healthy.contains("SERVING") && !healthy.contains("NOT_SERVING"), "health says {healthy}");

    let read = said(LIST)?;
    ensure!(read.contains("PermissionDenied"), "reading without a grant: {read}");

    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    let outcome = async {
        for (role, opened) in [("karpenter-viewer", LIST), ("karpenter-operator", REPORT)] {
            let change = said(REPORT)?;
            ensure!(change.contains("PermissionDenied"), "changing without the grant for it: {change}");
            bindings.create(&PostParams::default(), &binding(&space, role)).await?;
            eventually("the grant to count", || async {
                let answer = said(opened)?;
                Ok((!answer.contains("PermissionDenied")).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
    .await;
    for role in ["karpenter-viewer", "karpenter-operator"] {
        bindings.delete(&format!("{space}-{role}"), &DeleteParams::default()).await?;
    }
    callee.stop(&stack)?;
    outcome
}

/// Gives a role of the chart to the account `person` of a namespace.
pub(crate) fn binding(space: &str, role: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: ObjectMeta { name: Some(format!("{space}-{role}")), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: "person".to_owned(),
            namespace: Some(space.to_owned()),
            ..Subject::default()
        }]),
    }
}

async fn a_wrong_flag_ends_the_process_with_one_line_and_status_64(_stack: Stack) -> Result<()> {
    for service in runtime::Service::ALL {
        let output = std::process::Command::new(integration::rpc::binary(service.as_str())?)
            .args(["--cluster-name=x", "--grpc-addr=nowhere"])
            .env_clear()
            .output()
            .with_context(|| format!("run {service}"))?;
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(64), "{service} ended with {:?}: {said}", output.status);
        ensure!(said.trim().lines().count() == 1 && said.contains("--grpc-addr"), "{service} said {said:?}");
    }
    Ok(())
}
