//! Getting a handle: region, credentials, timeouts, retries, and one client a service, made when first used.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use cloud::catalog::price_list_region;

use crate::calls::CallMetrics;
use crate::ec2::Ec2;
use crate::intercept::Counting;
use crate::pace::{Limits, Paces};

/// What a service says about its connection. Endpoint, region and credentials come from where the SDK looks for them:
/// `AWS_ENDPOINT_URL`, `AWS_REGION`, Pod Identity, IRSA, the instance's metadata.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: wherever the SDK finds it.
    pub region: Option<String>,
    /// For tests and private endpoints; `None`: wherever the SDK finds it.
    pub endpoint: Option<String>,
    /// Fixed keys for test servers; `None`: whatever credentials the SDK finds.
    pub keys: Option<Keys>,
    /// Attempts of one call, the first included.
    pub attempts: u32,
    pub limits: Limits,
    /// Sent as user agent, after `karpenter.sh-`.
    pub version: String,
    /// Shadow mode: what would change something is refused here and never sent.
    pub read_only: bool,
    /// Counts every call; the service registers a clone of it.
    pub calls: CallMetrics,
}

/// An access key pair.
#[derive(Clone)]
pub struct Keys {
    pub access_key_id: String,
    pub secret_access_key: String,
}

/// The secret stays out of logs.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: None,
            endpoint: None,
            keys: None,
            attempts: 3,
            limits: Limits::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            read_only: false,
            calls: CallMetrics::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "no AWS region is known: set AWS_REGION, or run where the instance metadata service answers with one"
    )]
    NoRegion,
}

/// All of one call with its retries, as in the reference.
const CALL_TIMEOUT: Duration = Duration::from_mins(4);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(100);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle to AWS. Cheap to clone; clones share clients, rate limits and batches.
#[derive(Clone)]
pub struct Aws {
    inner: Arc<Inner>,
}

struct Inner {
    sdk: SdkConfig,
    region: String,
    paces: Arc<Paces>,
    calls: CallMetrics,
    ec2: OnceLock<Ec2>,
    eks: OnceLock<aws_sdk_eks::Client>,
    events: OnceLock<aws_sdk_eventbridge::Client>,
    iam: OnceLock<aws_sdk_iam::Client>,
    pricing: OnceLock<aws_sdk_pricing::Client>,
    sqs: OnceLock<aws_sdk_sqs::Client>,
    ssm: OnceLock<aws_sdk_ssm::Client>,
    sts: OnceLock<aws_sdk_sts::Client>,
    zonal_shift: OnceLock<aws_sdk_arczonalshift::Client>,
}

/// A client of one service whose requests are counted.
macro_rules! client {
    ($aws:expr, $sdk:ident) => {
        client!($aws, $sdk, |config| config)
    };
    ($aws:expr, $sdk:ident, |$config:ident| $more:expr) => {{
        let $config =
            $sdk::config::Builder::from(&$aws.inner.sdk).interceptor(Counting($aws.inner.calls.clone()));
        $sdk::Client::from_conf($more.build())
    }};
}

impl Aws {
    /// Finds region and credentials' source; calls no AWS service (the metadata service apart, when nothing else names a
    /// region).
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(CALL_TIMEOUT)
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .retry_config(RetryConfig::standard().with_max_attempts(options.attempts.max(1)))
            .timeout_config(timeouts);
        if let Ok(name) = AppName::new(format!("karpenter.sh-{}", options.version)) {
            loader = loader.app_name(name);
        }
        if let Some(region) = options.region {
            loader = loader.region(Region::new(region));
        }
        if let Some(endpoint) = options.endpoint {
            loader = loader.endpoint_url(endpoint);
        }
        if let Some(keys) = options.keys {
            let keys = aws_sdk_ec2::config::Credentials::builder()
                .access_key_id(keys.access_key_id)
                .secret_access_key(keys.secret_access_key)
                .provider_name("options")
                .build();
            loader = loader.credentials_provider(keys);
        }
        let paces = Paces::new(&options.limits, options.read_only);
        Self::with_config(loader.load().await, paces, options.calls)
    }

    fn with_config(sdk: SdkConfig, paces: Paces, calls: CallMetrics) -> Result<Self, ConnectError> {
        let region = sdk.region().ok_or(ConnectError::NoRegion)?.to_string();
        let inner = Inner {
            sdk,
            region,
            paces: Arc::new(paces),
            calls,
            ec2: OnceLock::new(),
            eks: OnceLock::new(),
            events: OnceLock::new(),
            iam: OnceLock::new(),
            pricing: OnceLock::new(),
            sqs: OnceLock::new(),
            ssm: OnceLock::new(),
            sts: OnceLock::new(),
            zonal_shift: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn region_name(&self) -> &str {
        &self.inner.region
    }

    pub(crate) fn paces(&self) -> &Paces {
        &self.inner.paces
    }

    pub(crate) fn calls(&self) -> &CallMetrics {
        &self.inner.calls
    }

    pub(crate) fn ec2(&self) -> &Ec2 {
        self.inner.ec2.get_or_init(|| {
            let client = client!(self, aws_sdk_ec2);
            Ec2::new(client, Arc::clone(&self.inner.paces), &self.inner.calls)
        })
    }

    pub(crate) fn eks(&self) -> &aws_sdk_eks::Client {
        self.inner.eks.get_or_init(|| client!(self, aws_sdk_eks))
    }

    pub(crate) fn events(&self) -> &aws_sdk_eventbridge::Client {
        self.inner.events.get_or_init(|| client!(self, aws_sdk_eventbridge))
    }

    pub(crate) fn iam(&self) -> &aws_sdk_iam::Client {
        self.inner.iam.get_or_init(|| client!(self, aws_sdk_iam))
    }

    /// Prices are kept in a few regions only.
    pub(crate) fn pricing(&self) -> &aws_sdk_pricing::Client {
        self.inner.pricing.get_or_init(|| {
            let region = Region::new(price_list_region(&self.inner.region));
            client!(self, aws_sdk_pricing, |config| config.region(region))
        })
    }

    pub(crate) fn sqs(&self) -> &aws_sdk_sqs::Client {
        self.inner.sqs.get_or_init(|| client!(self, aws_sdk_sqs))
    }

    pub(crate) fn ssm(&self) -> &aws_sdk_ssm::Client {
        self.inner.ssm.get_or_init(|| client!(self, aws_sdk_ssm))
    }

    pub(crate) fn sts(&self) -> &aws_sdk_sts::Client {
        self.inner.sts.get_or_init(|| client!(self, aws_sdk_sts))
    }

    pub(crate) fn zonal_shift(&self) -> &aws_sdk_arczonalshift::Client {
        self.inner.zonal_shift.get_or_init(|| client!(self, aws_sdk_arczonalshift))
    }
}
