//! The server's side of TLS: every replica makes its own key and a self-signed certificate for it, and renews both at
//! half of their life. No authority and no secret is shared; callers trust what the replica publishes (see `trust`).

use std::{
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::Service;

/// How long a certificate is valid. It is replaced at half of this.
pub(crate) const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// Clocks of two nodes may differ by this much and a fresh certificate is still accepted. It is trusted because it is published, not
/// because it is new, so that there is no harm in much.
const SKEW: Duration = Duration::from_secs(3600);

/// gRPC is HTTP/2, and says so in the handshake.
pub(crate) const ALPN: &[u8] = b"h2";

/// A key with its certificate.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) pem: String,
    pub(crate) renew_at: SystemTime,
    key: Arc<CertifiedKey>,
}

#[cfg(test)]
impl Issued {
    pub(crate) fn certificate(&self) -> rustls_pki_types::CertificateDer<'static> {
        self.key.cert[0].clone()
    }
}

/// What a certificate says about its owner.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) service: Service,
    pub(crate) namespace: String,
    pub(crate) advertised: SocketAddr,
}

impl Subject {
    pub(crate) fn issue(&self, now: SystemTime, validity: Duration) -> anyhow::Result<Issued> {
        let name = self.service.dns_name(&self.namespace);
        let names = vec![name.clone(), format!("{name}.cluster.local"), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).context("name the certificate")?;
        params.subject_alt_names.push(SanType::IpAddress(self.advertised.ip()));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = (now - SKEW).into();
        params.not_after = (now + validity).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().context("make a key")?;
        let certificate = params.self_signed(&key).context("sign the certificate")?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let signer = provider().key_provider.load_private_key(der).context("load the key")?;
        Ok(Issued {
            pem: certificate.pem(),
            renew_at: now + validity / 2,
            key: Arc::new(CertifiedKey::new(vec![certificate.der().clone()], signer)),
        })
    }
}

/// The one cryptography provider of the workspace.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// The certificate that new connections get; connections that stand are not touched by a change.
#[derive(Clone, Debug)]
pub(crate) struct Current(Arc<RwLock<Arc<CertifiedKey>>>);

impl Current {
    pub(crate) fn new(issued: &Issued) -> Self {
        Self(Arc::new(RwLock::new(issued.key.clone())))
    }

    pub(crate) fn replace(&self, issued: &Issued) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = issued.key.clone();
    }

    pub(crate) fn server_config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .context("set up TLS 1.3")?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would skip the certificate, and callers must see the one that is published now.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
