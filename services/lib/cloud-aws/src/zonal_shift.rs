//! Zones that traffic is being moved away from.

use aws_sdk_arczonalshift::types::AppliedStatus;
use cloud::catalog::ZonalShift;
use cloud::error::CloudError;
use jiff::Timestamp;

use crate::connect::Aws;
use crate::convert::timestamp;
use crate::ec2::paced;

impl Aws {
    /// Read anew each time, so that a shift that was cancelled is over at once.
    pub(crate) async fn current_shifts(&self, cluster_arn: &str) -> Result<Vec<ZonalShift>, CloudError> {
        let call = self.zonal_shift().get_managed_resource().resource_identifier(cluster_arn);
        let answer = paced(&self.paces().other, "GetManagedResource", call.send()).await?;
        let now = Timestamp::now();
        let applied = answer.zonal_shifts().iter().filter(|s| *s.applied_status() == AppliedStatus::Applied);
        let shift = |s: &aws_sdk_arczonalshift::types::ZonalShiftInResource| {
            let expires = timestamp(s.expiry_time())?;
            Some(ZonalShift { zone_id: s.away_from().to_owned(), expires })
        };
        Ok(applied.filter_map(shift).filter(|s| s.expires > now).collect())
    }
}
