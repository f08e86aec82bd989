//! How resources are looked up: by id, by name, or by tags.

/// One way to find resources. The conditions inside one selection all hold; several selections are several calls, joined
/// by the caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Select {
    Ids(Vec<String>),
    /// Security groups and images only. EC2's wildcards (`*`, `?`) are allowed.
    Names(Vec<String>),
    Tags(Vec<TagFilter>),
    /// Images only: a name, wildcards allowed, and tags.
    NameAndTags(String, Vec<TagFilter>),
}

/// A tag that must be there, with this value or with any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagFilter {
    pub key: String,
    /// `None` accepts every value.
    pub value: Option<String>,
}

impl TagFilter {
    pub fn is(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: Some(value.into()) }
    }

    pub fn exists(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: None }
    }

    /// As selector terms write it: the value `*` accepts every value.
    pub fn from_term(key: &str, value: &str) -> Self {
        if value == "*" { Self::exists(key) } else { Self::is(key, value) }
    }

    pub fn matches(&self, tags: &crate::Tags) -> bool {
        tags.get(&self.key).is_some_and(|found| self.value.as_ref().is_none_or(|wanted| wanted == found))
    }
}
