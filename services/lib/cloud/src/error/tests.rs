use super::*;

#[test]
fn every_code_of_the_reference_has_the_kind_callers_act_on() {
    use ErrorKind as K;
    for (code, kind) in [
        ("InvalidCapacityReservationId.NotFound", K::NotFound),
        ("InvalidInstanceID.NotFound", K::NotFound),
        ("InvalidLaunchTemplateName.NotFoundException", K::LaunchTemplateNotFound),
        ("InvalidLaunchTemplateId.NotFound", K::NotFound),
        ("QueueDoesNotExist", K::NotFound),
        ("InvalidPlacementGroup.Unknown", K::NotFound),
        ("InvalidPlacementGroupId.Unknown", K::NotFound),
        ("AWS.SimpleQueueService.NonExistentQueue", K::NotFound),
        ("NoSuchEntity", K::NotFound),
        ("ParameterNotFound", K::NotFound),
        ("EntityAlreadyExists", K::AlreadyExists),
        ("InvalidLaunchTemplateName.AlreadyExistsException", K::AlreadyExists),
        ("InsufficientInstanceCapacity", K::Unfulfillable),
        ("MaxSpotInstanceCountExceeded", K::Unfulfillable),
        ("VcpuLimitExceeded", K::Unfulfillable),
        ("UnfulfillableCapacity", K::Unfulfillable),
        ("Unsupported", K::Unfulfillable),
        ("InsufficientFreeAddressesInSubnet", K::SubnetFull),
        ("MaxFleetCountExceeded", K::Unfulfillable),
        ("ReservationCapacityExceeded", K::Unfulfillable),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", K::SpotRoleMissing),
        ("RequestLimitExceeded", K::Throttled),
        ("ThrottlingException", K::Throttled),
        ("UnauthorizedOperation", K::Unauthorized),
        ("AccessDenied", K::Unauthorized),
        ("InternalError", K::ServerFault),
        ("InvalidParameterValue", K::Invalid),
    ] {
        assert_eq!(classify(code, "", Fault::Client), kind, "{code}");
    }
}

#[test]
fn an_unknown_code_is_judged_by_whose_fault_it_was() {
    assert_eq!(classify("Strange", "", Fault::Client), ErrorKind::Invalid);
    assert_eq!(classify("Strange", "", Fault::Server), ErrorKind::ServerFault);
    assert_eq!(classify("", "connection refused", Fault::None), ErrorKind::Unreachable);
}

#[test]
fn a_full_spread_group_is_known_by_its_message_whatever_the_code() {
    let message = "You have reached the limit of instances in this spread placement group in us-east-1a";
    for code in ["InvalidParameterValue", "InsufficientInstanceCapacity"] {
        assert_eq!(classify(code, message, Fault::Client), ErrorKind::SpreadGroupFull);
    }
}

#[test]
fn launch_reasons_follow_the_first_row_that_matches() {
    use LaunchReason as R;
    for (text, reason) in [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: no", R::SpotSLRCreationFailed),
        ("UnauthorizedOperation: You are not authorized", R::Unauthorized),
        ("AuthFailure: Not authorized for images: [ami-1]", R::AMIAuthorizationFailure),
        (
            "InvalidParameter: groups and subnet belong to different networks",
            R::SecurityGroupSubnetVPCMismatch,
        ),
        ("InvalidParameterValue: iamInstanceProfile.name is invalid", R::InstanceProfileNameInvalid),
        ("InvalidLaunchTemplateId.NotFound: gone", R::LaunchTemplateNotFound),
        ("InvalidUserData.Malformed: User data is limited to 16384 bytes", R::UserDataSizeLimitExceeded),
        ("InvalidAMIID.Malformed: x", R::InvalidAMIID),
        ("InvalidAMIID.NotFound: x", R::AMINotFound),
        ("RequestLimitExceeded: slow down", R::RequestLimitExceeded),
        ("InternalError: x", R::InternalError),
        ("InvalidParameterCombination: not eligible for Free Tier", R::FreeTierIneligible),
        ("MaxFleetCountExceeded: x", R::FleetQuotaExceeded),
        ("PendingVerification: x", R::AccountPendingVerification),
        ("MaxSpotInstanceCountExceeded: x", R::SpotQuotaExceeded),
        ("VcpuLimitExceeded: x", R::VCPULimitExceeded),
        ("InsufficientFreeAddressesInSubnet: x", R::InsufficientFreeAddressesInSubnet),
        ("InsufficientInstanceCapacity: x", R::LaunchFailed),
    ] {
        assert_eq!(launch_reason(text).0, reason, "{text}");
    }
}

#[test]
fn a_denied_call_says_which_policy_denies_it() {
    for (end, part) in [
        ("with an explicit deny in a permissions boundary", "permissions boundary"),
        ("with an explicit deny in a service control policy", "service control policy"),
        ("with an explicit deny in an identity-based policy", "denied explicitly"),
        ("because no identity-based policy allows it", "no identity policy"),
    ] {
        let text = format!("UnauthorizedOperation: User is not authorized to perform: ec2:CreateFleet {end}");
        let (reason, advice) = launch_reason(&text);
        assert_eq!(reason, LaunchReason::Unauthorized);
        assert!(advice.contains(part), "{advice}");
    }
}

#[test]
fn errors_name_the_call_the_code_and_the_message() {
    let error = CloudError::new("CreateFleet", "RequestLimitExceeded", "slow down", Fault::Client);
    assert_eq!(error.to_string(), "CreateFleet: RequestLimitExceeded: slow down");
    assert_eq!(CloudError::unreachable("GetQueueUrl", "no route").to_string(), "GetQueueUrl: no route");
    assert!(error.is_retryable());
    assert!(!CloudError::new("CreateFleet", "UnauthorizedOperation", "", Fault::Client).is_retryable());
}
