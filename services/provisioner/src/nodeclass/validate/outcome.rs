//! What the answer to a dry run says about a class. Pure.

use api::conditions::Finding;
use cloud::error::{CloudError, ErrorKind};

/// Which right or limit a call checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    CreateLaunchTemplate,
    CreateFleet,
    RunInstances,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The class fails; somebody must change something.
    Fails(Finding),
    /// Nothing was learned; ask again.
    AskAgain,
}

impl Check {
    fn reason(self) -> &'static str {
        match self {
            Self::CreateLaunchTemplate => "CreateLaunchTemplateAuthCheckFailed",
            Self::CreateFleet => "CreateFleetAuthCheckFailed",
            Self::RunInstances => "RunInstancesAuthCheckFailed",
        }
    }

    fn call(self) -> &'static str {
        match self {
            Self::CreateLaunchTemplate => "ec2:CreateLaunchTemplate",
            Self::CreateFleet => "ec2:CreateFleet",
            Self::RunInstances => "ec2:RunInstances",
        }
    }
}

/// Of a call that failed (a dry run that would have worked is no failure).
pub(super) fn judge(check: Check, error: &CloudError) -> Verdict {
    let (_, advice) = error.launch_reason();
    if error.kind == ErrorKind::Unauthorized {
        let advice = error.remedy().unwrap_or_else(|| advice.to_owned());
        let text = format!("controller isn't authorized to call {}: {advice}", check.call());
        return Verdict::Fails(Finding::fails(check.reason(), text));
    }
    if error.message.contains("User data is limited to") {
        return Verdict::Fails(Finding::fails("UserDataSizeLimitExceeded", advice));
    }
    // Everything else may pass by itself: limits, faults of EC2, a profile that IAM has not spread yet.
    Verdict::AskAgain
}

#[cfg(test)]
mod tests {
    use cloud::error::Fault;

    use super::*;

    #[test]
    fn only_missing_rights_and_too_much_user_data_are_the_users_to_mend() {
        let judge = |code: &str, message: &str| {
            judge(Check::RunInstances, &CloudError::new("RunInstances", code, message, Fault::Client))
        };
        let text = "controller isn't authorized to call ec2:RunInstances: a service control policy denies ec2:RunInstances explicitly, and no grant helps until it is changed";
        assert_eq!(
            judge("UnauthorizedOperation", "x with an explicit deny in a service control policy"),
            Verdict::Fails(Finding::fails("RunInstancesAuthCheckFailed", text))
        );
        let too_long = judge("InvalidUserData.Malformed", "User data is limited to 16384 bytes");
        assert!(
            matches!(too_long, Verdict::Fails(finding) if finding == Finding::fails("UserDataSizeLimitExceeded", "user data is larger than 16 KiB: shorten spec.userData"))
        );
        for (code, message) in [
            ("RequestLimitExceeded", ""),
            ("InternalError", ""),
            ("InvalidParameterValue", "Invalid IAM Instance Profile name"),
            ("SomethingNew", ""),
        ] {
            assert_eq!(judge(code, message), Verdict::AskAgain, "{code}");
        }
    }
}
