//! Parameters.

use cloud::error::CloudError;

use crate::connect::Aws;
use crate::ec2::paced;

impl Aws {
    pub(crate) async fn find_parameter(&self, name: &str) -> Result<Option<String>, CloudError> {
        let call = self.ssm().get_parameter().name(name);
        match paced(&self.paces().other, "GetParameter", call.send()).await {
            Ok(answer) => Ok(answer.parameter().and_then(|p| p.value()).map(str::to_owned)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
