//! The caller's side of TLS: a replica must show exactly a certificate that it published, unexpired, for its service's
//! name, and prove that it has the key. Being signed by anybody is neither needed nor enough.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::tls::{ALPN, provider};

/// The published certificates of one replica; shared with its connections, so that a change counts from the next
/// handshake on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Arc<RwLock<Vec<CertificateDer<'static>>>>);

impl Pins {
    pub(crate) fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        Self(Arc::new(RwLock::new(certificates)))
    }

    /// Whether that changes anything.
    pub(crate) fn replace(&self, certificates: Vec<CertificateDer<'static>>) -> bool {
        let mut pins = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *pins != certificates;
        *pins = certificates;
        changed
    }

    fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|pin| pin.as_ref() == certificate.as_ref())
    }

    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        let verifier = Verifier { pins: self.clone(), provider: provider() };
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Whether these bytes are a certificate at all.
pub(crate) fn is_certificate(certificate: &CertificateDer<'_>) -> bool {
    ParsedCertificate::try_from(certificate).is_ok()
}

/// Whether the certificate's time is over. Anything else that may be wrong with it is not asked here.
pub(crate) fn is_expired(certificate: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> bool {
    let verdict = verify(certificate, name, now, &provider());
    matches!(
        verdict,
        Err(Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }))
    )
}

/// A self-signed certificate is its own root: this checks its signature, its time, its purpose and its name.
fn verify(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
    provider: &Arc<CryptoProvider>,
) -> Result<ServerCertVerified, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone().into_owned())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_server_cert(certificate, &[], name, &[], now)
}

#[derive(Debug)]
struct Verifier {
    pins: Pins,
    provider: Arc<CryptoProvider>,
}

#[derive(thiserror::Error)]
#[error("the server's certificate is not one that it has published in its trust ConfigMap")]
struct NotPublished;

/// rustls shows an error of ours by its `Debug`, and a person reads it.
impl std::fmt::Debug for NotPublished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pins.contains(end_entity) {
            return Err(CertificateError::Other(OtherError(Arc::new(NotPublished))).into());
        }
        verify(end_entity, server_name, now, &self.provider)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{Service, grpc::tls::Subject};

    const DAY: Duration = Duration::from_secs(86_400);

    fn subject() -> Subject {
        let advertised = "10.0.0.1:9090".parse().unwrap();
        Subject { service: Service::PricingCache, namespace: "kube-system".into(), advertised }
    }

    fn name(text: &str) -> ServerName<'static> {
        ServerName::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn only_the_published_certificate_of_that_name_is_accepted() {
        let issued = subject().issue(SystemTime::now(), DAY).unwrap();
        let verifier = Verifier { pins: Pins::new(vec![issued.certificate()]), provider: provider() };
        let check = |certificate: &CertificateDer<'_>, server: &str| {
            verifier.verify_server_cert(certificate, &[], &name(server), &[], UnixTime::now())
        };
        let own = "karpenter-pricing-cache.kube-system.svc";
        for good in [own, "karpenter-pricing-cache.kube-system.svc.cluster.local", "localhost", "10.0.0.1"] {
            check(&issued.certificate(), good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        check(&issued.certificate(), "karpenter-termination.kube-system.svc").unwrap_err();
        let twin = subject().issue(SystemTime::now(), DAY).unwrap();
        let error = check(&twin.certificate(), own).unwrap_err();
        assert!(error.to_string().contains("not one that it has published"), "{error}");
    }

    #[test]
    fn a_certificate_whose_time_is_over_is_known_as_expired() {
        let server = name("localhost");
        let old = subject().issue(SystemTime::now() - 2 * DAY, DAY).unwrap();
        let fresh = subject().issue(SystemTime::now(), DAY).unwrap();
        assert!(is_expired(&old.certificate(), &server, UnixTime::now()));
        assert!(!is_expired(&fresh.certificate(), &server, UnixTime::now()));
    }
}
