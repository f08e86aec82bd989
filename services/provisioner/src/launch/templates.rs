//! Launch templates in EC2: made on demand, remembered while used, deleted when nobody has used them for a while.
//!
//! The reference forgets and deletes after one minute, which in a busy cluster means making the same template again and again
//! until EC2 limits the calls. Ten minutes keep the number in EC2 small all the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud::Launcher;
use cloud::error::{CloudError, ErrorKind};
use cloud::instance::{CLUSTER_TAG, NODECLASS_TAG};
use cloud::select::TagFilter;
use cloud::template::LaunchTemplate;
use tokio::time::Instant;
use tracing::{debug, info, warn};

const UNUSED_FOR: Duration = Duration::from_mins(10);

pub struct Templates {
    launcher: Arc<dyn Launcher>,
    cluster: String,
    known: Mutex<BTreeMap<String, Known>>,
    /// One maker a name; others wait for its result instead of asking EC2 for the same.
    making: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

struct Known {
    id: String,
    used: Instant,
}

impl Templates {
    pub fn new(launcher: Arc<dyn Launcher>, cluster: &str) -> Self {
        Self {
            launcher,
            cluster: cluster.to_owned(),
            known: Mutex::new(BTreeMap::new()),
            making: Mutex::new(HashMap::new()),
        }
    }

    /// The template exists in EC2 when this returns. Its name holds a hash of its content, so a name that is taken is it.
    pub async fn ensure(&self, template: LaunchTemplate) -> Result<(), CloudError> {
        if self.touch(&template.name) {
            return Ok(());
        }
        let name = template.name.clone();
        let turn = Arc::clone(lock(&self.making).entry(name.clone()).or_default());
        let _mine = turn.lock().await;
        if self.touch(&name) {
            return Ok(());
        }
        let made = match self.launcher.create_launch_template(template).await {
            Ok(made) => {
                debug!(template = name, id = made.id, "created launch template");
                Ok(Some(made))
            }
            Err(error) if error.kind == ErrorKind::AlreadyExists => {
                self.launcher.launch_template(&name).await
            }
            Err(error) => Err(error),
        };
        lock(&self.making).remove(&name);
        match made? {
            Some(made) => {
                lock(&self.known).insert(name, Known { id: made.id, used: Instant::now() });
                Ok(())
            }
            None => Err(CloudError::malformed(
                "CreateLaunchTemplate",
                format!("EC2 says that {name} exists and does not list it; it is tried again"),
            )),
        }
    }

    /// Someone deleted them; they are made again when next needed.
    pub fn forget<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut known = lock(&self.known);
        for name in names {
            known.remove(name);
        }
    }

    /// Takes over what an earlier process left, so that it is used again or deleted in time.
    pub async fn adopt_leftovers(&self) {
        match self.launcher.launch_templates(vec![TagFilter::is(CLUSTER_TAG, &self.cluster)]).await {
            Ok(found) => {
                let mut known = lock(&self.known);
                for template in found {
                    known
                        .entry(template.name)
                        .or_insert_with(|| Known { id: template.id, used: Instant::now() });
                }
            }
            Err(error) => warn!(error = %error, "launch templates of an earlier process are not known"),
        }
    }

    /// Deletes those that nobody has used for a while.
    pub async fn sweep(&self) {
        let now = Instant::now();
        let idle: Vec<(String, String)> = {
            let mut known = lock(&self.known);
            let is_idle = |k: &Known| now.duration_since(k.used) >= UNUSED_FOR;
            let idle =
                known.iter().filter(|(_, k)| is_idle(k)).map(|(n, k)| (n.clone(), k.id.clone())).collect();
            known.retain(|_, k| !is_idle(k));
            idle
        };
        for (name, id) in idle {
            // Made known again meanwhile: it is in use. A launch that still loses the race makes it again by itself.
            if lock(&self.known).contains_key(&name) {
                continue;
            }
            match self.launcher.delete_launch_template(&id).await {
                Ok(()) => debug!(template = name, "deleted launch template"),
                Err(error) => {
                    warn!(template = name, error = %error, "launch template stays for now");
                    lock(&self.known).entry(name).or_insert(Known { id, used: now });
                }
            }
        }
    }

    /// Deletes all of a class that is going away.
    pub async fn delete_of_class(&self, class: &str) -> Result<(), CloudError> {
        let tags = vec![TagFilter::is(CLUSTER_TAG, &self.cluster), TagFilter::is(NODECLASS_TAG, class)];
        let found = self.launcher.launch_templates(tags).await?;
        let count = found.len();
        for template in found {
            self.launcher.delete_launch_template(&template.id).await?;
            lock(&self.known).remove(&template.name);
        }
        if count > 0 {
            info!(ec2nodeclass = class, count, "deleted launch templates");
        }
        Ok(())
    }

    fn touch(&self, name: &str) -> bool {
        let mut known = lock(&self.known);
        let found = known.get_mut(name);
        found.map(|template| template.used = Instant::now()).is_some()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here panics while it holds a lock, and a half-made map does not exist.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
