//! The live page without questions, for a shared screen, and as one file.

use anyhow::{Result, ensure};
use integration::{Stack, Test, test};
use serde_json::json;

use crate::live_page_scene::{SERVICES, Scene, kubectl_karpenter};

pub(crate) fn tests() -> Vec<Test> {
    vec![test!("live_page", alone, a_read_only_page_asks_nothing_and_a_snapshot_needs_no_command)]
}

async fn a_read_only_page_asks_nothing_and_a_snapshot_needs_no_command(stack: Stack) -> Result<()> {
    let file = stack.dir().join("snapshot.html");
    let scene = Scene::new(stack, "modes", &["--read-only"]).await?;
    let workload = &scene.workload;
    workload.deploy("web", 2, "500m", json!({})).await?;
    let node = workload.running("web", 2).await?.swap_remove(0);
    let there = "return window.karpenter.model.nodes.get(arguments[0])?.pods.length > 0";
    scene.page.comes_to("the page to show the node with its pods", there, &json!([node])).await?;
    for question in ["plan", "explain"] {
        let refused =
            ureq::post(format!("{}{question}", scene.page.ui.url)).send_json(json!({"remove": [node]}));
        ensure!(matches!(refused, Err(ureq::Error::StatusCode(404))), "{question} was answered: {refused:?}");
    }
    scene.page.show("question")?;
    let count = "return document.querySelectorAll('#view-question button.main:not(:disabled)').length";
    let open = scene.page.run(count, &json!([]))?;
    ensure!(open == 0, "{open} buttons of the read-only page ask");

    let mut command = kubectl_karpenter(&scene.person.kubeconfig)?;
    let output = command.args(["ui", "--snapshot"]).arg(&file).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    scene.page.browser.open(&format!("file://{}", file.display()))?;
    let expected = json!([true, SERVICES, true]);
    let seen = scene.page.run(
        "const { nodes, services } = window.karpenter.model;
         const fetched = performance.getEntriesByType('resource').length;
         return [nodes.get(arguments[0])?.pods.length >= 1, services.size, fetched === 0]",
        &json!([node]),
    )?;
    ensure!(seen == expected, "the node with its pods, services, and nothing fetched: {seen}");
    std::fs::remove_file(&file)?;
    scene.end().await
}
