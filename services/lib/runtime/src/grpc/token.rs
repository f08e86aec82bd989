//! The token this service shows to one other service. kubelet replaces the file before the token expires, so it is read again
//! whenever it changed.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use http::HeaderValue;

/// The file's time is looked at no more often than this.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    last: Mutex<Option<Read>>,
}

#[derive(Debug)]
struct Read {
    looked: Instant,
    modified: Option<SystemTime>,
    header: HeaderValue,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read the token for other services from {path} (flag --rpc-token-dir)")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{path} (flag --rpc-token-dir) holds no token")]
    NoToken { path: PathBuf },
}

impl TokenFile {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), last: Mutex::new(None) }
    }

    pub(crate) fn header(&self) -> Result<HeaderValue, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(read) = last.as_mut() {
            if now.duration_since(read.looked) < LOOK {
                return Ok(read.header.clone());
            }
            read.looked = now;
            if read.modified.is_some() && read.modified == self.modified() {
                return Ok(read.header.clone());
            }
        }
        let modified = self.modified();
        let header = self.read()?;
        *last = Some(Read { looked: now, modified, header: header.clone() });
        Ok(header)
    }

    fn modified(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).and_then(|meta| meta.modified()).ok()
    }

    fn read(&self) -> Result<HeaderValue, Error> {
        let path = || self.path.clone();
        let text = std::fs::read_to_string(&self.path)
            .map_err(|source| Error::Unreadable { path: path(), source })?;
        let token = text.trim();
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        match header {
            Ok(mut header) if !token.is_empty() => {
                header.set_sensitive(true);
                Ok(header)
            }
            _ => Err(Error::NoToken { path: path() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("karpenter-runtime-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_replaced_token_is_shown_soon_after() {
        let path = file("token");
        std::fs::write(&path, "first\n").unwrap();
        let token = TokenFile::new(&path);
        assert_eq!(token.header().unwrap(), "Bearer first");
        std::fs::write(&path, "second\n").unwrap();
        std::fs::File::open(&path).unwrap().set_modified(SystemTime::now() + Duration::from_secs(5)).unwrap();
        token.last.lock().unwrap().as_mut().unwrap().looked -= LOOK;
        assert_eq!(token.header().unwrap(), "Bearer second");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_missing_or_empty_file_is_named() {
        let error = TokenFile::new(Path::new("/nonexistent/token")).header().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/token"), "{error}");
        let path = file("empty");
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(TokenFile::new(&path).header(), Err(Error::NoToken { .. })));
        std::fs::remove_file(&path).unwrap();
    }
}
