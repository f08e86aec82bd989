//! Who may see the live page: the Role for people who only look suffices for all of it, and whoever lacks it is shown what to ask for.

use anyhow::{Result, ensure};
use integration::browser::Browser;
use integration::workload::Workload;
use integration::{Stack, Test, eventually, test};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::live_page_scene::{Page, Person, SERVICES, services};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("live_page", alone, the_viewer_role_opens_the_page_and_without_it_the_page_names_the_right)]
}

/// Group, resource, sub-resource, name and verb, all in the services' namespace, and whether a viewer has it.
const RIGHTS: [([&str; 5], bool); 8] = [
    (["", "configmaps", "", "karpenter-provisioner-trust", "get"], true),
    (["", "serviceaccounts", "token", "karpenter-viewer", "create"], true),
    (["", "pods", "portforward", "", "create"], true),
    (["", "serviceaccounts", "token", "karpenter-operator", "create"], false),
    (["", "secrets", "", "", "get"], false),
    (["", "pods", "", "", "delete"], false),
    (["", "configmaps", "", "karpenter-provisioner-trust", "patch"], false),
    (["karpenter.sh", "nodeclaims", "", "", "delete"], false),
];

async fn may(client: &Client, [group, resource, subresource, name, verb]: [&str; 5]) -> Result<bool> {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let attributes = ResourceAttributes {
        namespace: given("kube-system"),
        group: given(group),
        resource: given(resource),
        subresource: given(subresource),
        name: given(name),
        verb: given(verb),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn the_viewer_role_opens_the_page_and_without_it_the_page_names_the_right(stack: Stack) -> Result<()> {
    let browser = Browser::start()?;
    let running = services(&stack, &[])?;
    let workload = Workload::new(&stack, "viewer", json!({}), json!({})).await?;
    let person = Person::new(&stack, &workload.client, &workload.name).await?;
    let own = Kubeconfig::read_from(&person.kubeconfig)?;
    let client = Client::try_from(Config::from_custom_kubeconfig(own, &KubeConfigOptions::default()).await?)?;
    let page = Page::open(browser, &person.kubeconfig, &[])?;
    eventually("the page to name a missing right", || async {
        let shown = page.run(
            "return [...document.querySelectorAll('#services li')].map((each) => each.className + ' ' + each.title)",
            &json!([]),
        )?;
        // Which of the two is asked for first is a race.
        let named = |text: &str| {
            let first = text.contains("cannot get resource \"configmaps\"");
            text.starts_with("lost")
                && text.contains("kube-system")
                && (first || text.contains("cannot create resource \"serviceaccounts/token\""))
        };
        let all = shown.as_array().is_some_and(|all| {
            all.len() == SERVICES && all.iter().all(|each| each.as_str().is_some_and(named))
        });
        ensure!(all, "{shown}");
        Ok(Some(()))
    })
    .await?;

    // The page that is open finds its way as soon as the right is there.
    person.may_look().await?;
    page.is_live().await?;
    workload.deploy("web", 2, "500m", json!({})).await?;
    workload.running("web", 2).await?;
    let explained = "
        const { nodes, candidates } = window.karpenter.model;
        const own = [...nodes.values()].filter((node) => node.pool === arguments[0]);
        return own.length > 0 && own.every((node) => node.pods.length > 0 && candidates.has(node.name))";
    let what = "the page to show the nodes with their pods and what keeps them";
    page.comes_to(what, explained, &json!([workload.name])).await?;
    // Questions too: they read.
    let reply = ureq::post(format!("{}plan", page.ui.url))
        .send_json(json!({"objects": ""}))?
        .body_mut()
        .read_to_string()?;
    ensure!(reply.contains("newNodes"), "{reply}");
    for (right, expected) in RIGHTS {
        ensure!(may(&client, right).await? == expected, "{right:?} is not {expected}");
    }
    person.may_not_look_any_more().await?;
    drop(page);
    workload.remove().await?;
    running.iter().rev().try_for_each(|service| service.stop(&stack))
}
