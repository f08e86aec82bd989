//! Who we are.

use cloud::error::CloudError;
use cloud::nodeclass::Identity;

use crate::connect::Aws;
use crate::convert::owned;
use crate::ec2::paced;

impl Aws {
    pub(crate) async fn caller(&self) -> Result<Identity, CloudError> {
        let call = self.sts().get_caller_identity();
        let answer = paced(&self.paces().other, "GetCallerIdentity", call.send()).await?;
        Ok(Identity { account_id: owned(answer.account()), arn: owned(answer.arn()) })
    }
}
