//! The cluster itself.

use cloud::error::CloudError;
use cloud::nodeclass::Cluster;

use crate::connect::Aws;
use crate::convert::{owned, present};
use crate::ec2::paced;

const OPERATION: &str = "DescribeCluster";

impl Aws {
    pub(crate) async fn describe_cluster(&self, name: &str) -> Result<Cluster, CloudError> {
        let call = self.eks().describe_cluster().name(name);
        let answer = paced(&self.paces().other, OPERATION, call.send()).await?;
        let found = answer.cluster().ok_or_else(|| {
            CloudError::malformed(OPERATION, format!("the answer for {name} holds no cluster"))
        })?;
        let network = found.kubernetes_network_config();
        let cidr = network.and_then(|n| n.service_ipv4_cidr().or_else(|| n.service_ipv6_cidr()));
        Ok(Cluster {
            arn: owned(found.arn()),
            endpoint: owned(found.endpoint()),
            certificate_authority: present(found.certificate_authority().and_then(|c| c.data())),
            version: owned(found.version()),
            service_cidr: present(cidr),
        })
    }
}
