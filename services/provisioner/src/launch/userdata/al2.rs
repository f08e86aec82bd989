//! Amazon Linux 2, and other images that boot through `bootstrap.sh`.

use super::mime::{self, Part};
use super::{Boot, Unrenderable, flags};

pub(super) fn render(boot: &Boot) -> Result<String, Unrenderable> {
    let mut parts = match boot.custom() {
        None => Vec::new(),
        Some(text) if mime::is_mime(text) => mime::parts(text)?,
        Some(text) => vec![Part::new(mime::SHELL, text)],
    };
    parts.push(Part::new(mime::SHELL, script(boot)));
    Ok(mime::join(&parts))
}

fn script(boot: &Boot) -> String {
    let mut command =
        format!("/etc/eks/bootstrap.sh '{}' --apiserver-endpoint '{}'", boot.cluster_name, boot.endpoint);
    if let Some(ca) = &boot.ca_bundle {
        command.push_str(&format!(" --b64-cluster-ca '{ca}'"));
    }
    if let Some(dns) = boot.first_dns() {
        if dns.contains(':') {
            command.push_str(" \\\n  --ip-family ipv6");
        }
        command.push_str(&format!(" \\\n  --dns-cluster-ip '{dns}'"));
    }
    // The flag below says how many; the script's own table must not.
    if boot.kubelet.max_pods.is_some() {
        command.push_str(" \\\n  --use-max-pods false");
    }
    let arguments = flags::extra_args(boot);
    if !arguments.is_empty() {
        command.push_str(&format!(" \\\n  --kubelet-extra-args '{arguments}'"));
    }
    if boot.raid0 {
        command.push_str(" \\\n  --local-disks raid0");
    }
    format!(
        "#!/bin/bash -xe\nexec > >(tee -a /var/log/user-data.log | logger -t user-data) 2>&1\n{command}\n"
    )
}
