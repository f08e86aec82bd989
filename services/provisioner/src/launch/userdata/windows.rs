//! Windows Server with the EKS bootstrap script. The instance store policy has no meaning here.

use super::{Boot, flags};

const OPEN: &str = "<powershell>";
const CLOSE: &str = "</powershell>";

pub(super) fn render(boot: &Boot) -> String {
    let mut text = format!("{OPEN}\n");
    if let Some(own) = boot.custom() {
        // Blocks cannot be nested: tags that the user wrote around the text would end ours.
        let own = own.trim();
        let bare = own.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)).unwrap_or(own);
        text.push_str(bare.trim());
        text.push('\n');
    }
    text.push_str("[string]$EKSBootstrap = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n");
    text.push_str(&format!(
        "& $EKSBootstrap -EKSClusterName '{}' -APIServerEndpoint '{}'",
        boot.cluster_name, boot.endpoint
    ));
    if let Some(ca) = &boot.ca_bundle {
        text.push_str(&format!(" -Base64ClusterCA '{ca}'"));
    }
    let arguments = flags::extra_args(boot);
    if !arguments.is_empty() {
        text.push_str(&format!(" -KubeletExtraArgs '{arguments}'"));
    }
    if let Some(dns) = boot.first_dns() {
        text.push_str(&format!(" -DNSClusterIP '{dns}'"));
    }
    text.push_str(&format!("\n{CLOSE}\n"));
    text
}
