//! A real Chromium without a screen, driven over chromedriver's HTTP API (W3C WebDriver). It has a profile of its own that is
//! thrown away, and leaves the network alone but for the pages it is sent to.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::suite::Skipped;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
const DRIVERS: [&str; 1] = ["chromedriver"];
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // The shared memory of a container is small.
    "--disable-dev-shm-usage",
];
/// Of the page, in CSS pixels.
const WIDTH: u32 = 1500;
const HEIGHT: u32 = 900;

/// Ends with the value.
pub struct Browser {
    /// `None` when chromedriver never said that it listens.
    session: Option<String>,
    driver: Child,
    /// Kept open: a write of the driver must not end it.
    printed: Option<BufReader<ChildStdout>>,
    /// Chromium's own process.
    pid: Option<u64>,
    profile: PathBuf,
}

impl Browser {
    /// [`Skipped`] where there is no Chromium, or no driver for it.
    pub fn start() -> Result<Self> {
        let browser = chromium().ok_or_else(|| missing(&BROWSERS))?;
        let driver = on_path(&DRIVERS).ok_or_else(|| missing(&DRIVERS))?;
        let profile = new_directory()?;
        let mut command = Command::new(driver);
        command.arg("--port=0").env("HOME", &profile);
        let driver = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let driver = driver.with_context(|| format!("start {command:?}"))?;
        // From here on whatever was started is ended when this is dropped.
        let mut started = Self { session: None, driver, printed: None, pid: None, profile };
        started.open_session(&browser)?;
        let size = json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        started.devtools("Emulation.setDeviceMetricsOverride", &size)?;
        Ok(started)
    }

    fn open_session(&mut self, browser: &Path) -> Result<()> {
        let printed = BufReader::new(self.driver.stdout.take().context("piped")?);
        let port = port(self.printed.insert(printed))?;
        let profile = format!("--user-data-dir={}", self.profile.join("profile").display());
        let arguments: Vec<&str> = FLAGS.iter().copied().chain([profile.as_str()]).collect();
        let options = json!({"binary": browser, "args": arguments});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let sessions = format!("http://127.0.0.1:{port}/session");
        let opened = call(&sessions, &wanted).context("start Chromium")?;
        let id = opened["sessionId"].as_str().with_context(|| format!("no session in {opened}"))?;
        self.session = Some(format!("{sessions}/{id}"));
        self.pid = opened["capabilities"]["goog:processID"].as_u64();
        Ok(())
    }

    fn call(&self, path: &str, body: &Value) -> Result<Value> {
        let session = self.session.as_deref().context("no session")?;
        call(&format!("{session}/{path}"), body).with_context(|| format!("WebDriver {path}"))
    }

    /// A method of the DevTools protocol.
    fn devtools(&self, method: &str, parameters: &Value) -> Result<Value> {
        self.call("goog/cdp/execute", &json!({"cmd": method, "params": parameters}))
    }

    /// Returns once the page is loaded.
    pub fn open(&self, url: &str) -> Result<()> {
        self.call("url", &json!({"url": url})).map(drop)
    }

    /// What the system says to pages that have a dark and a light side.
    pub fn prefer_dark(&self, dark: bool) -> Result<()> {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features})).map(drop)
    }

    /// Runs the body of a function in the page, and returns what that returns. `arguments` are the function's.
    pub fn run(&self, script: &str, arguments: &Value) -> Result<Value> {
        self.call("execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// What the page shows now, as a PNG.
    pub fn picture(&self, file: &Path) -> Result<()> {
        let shot = self.devtools("Page.captureScreenshot", &json!({"format": "png"}))?;
        let bytes = BASE64_STANDARD.decode(shot["data"].as_str().context("no picture")?)?;
        std::fs::write(file, bytes).with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            // Ends Chromium too.
            let _ = ureq::delete(session).call();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        if let Some(pid) = self.pid.filter(|pid| is_chromium_of(&self.profile, *pid)) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

/// Whether that process is the one with this profile: its number may be another's by now.
fn is_chromium_of(profile: &Path, pid: u64) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&*profile.to_string_lossy())
}

/// The browser that is on the PATH.
pub fn chromium() -> Option<PathBuf> {
    on_path(&BROWSERS)
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut all =
        std::env::split_paths(&path).flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    all.find(|program| program.is_file())
}

fn missing(names: &[&str]) -> Skipped {
    Skipped(format!("no {} on the PATH", names.join(", ")))
}

/// Of this process, and of no other browser in it.
fn new_directory() -> Result<PathBuf> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("karpenter-browser-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    Ok(directory)
}

/// The port that chromedriver prints; the last number of "ChromeDriver was started successfully on port 36241."
fn port(printed: impl BufRead) -> Result<u16> {
    for line in printed.lines() {
        let line = line?;
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            return port.trim_end_matches('.').parse().with_context(|| format!("read {line:?}"));
        }
    }
    bail!("chromedriver ended before it listened")
}

fn call(url: &str, body: &Value) -> Result<Value> {
    // A failure has its reason in the body.
    let request = ureq::post(url).config().http_status_as_error(false).build();
    let mut response = request.send_json(body)?;
    let status = response.status();
    let mut answer: Value = response.body_mut().with_config().limit(64 << 20).read_json()?;
    let value = answer["value"].take();
    ensure!(status.is_success(), "{}: {}", value["error"], value["message"]);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_what_the_driver_prints() {
        let printed =
            "Only local connections are allowed.\nChromeDriver was started successfully on port 36241.\n";
        assert_eq!(port(printed.as_bytes()).unwrap(), 36241);
        assert!(port(&b"Only local connections are allowed.\n"[..]).is_err());
    }
}
