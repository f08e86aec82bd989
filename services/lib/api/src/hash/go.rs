//! The hash of Go values: 64-bit FNV-1 as `hashstructure` (format 2, zero values ignored, slices as sets) combines it.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1: multiply, then xor. (FNV-1a is the other way round.)
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

pub(super) fn text(value: &str) -> u64 {
    bytes(value.as_bytes())
}

pub(super) fn boolean(value: bool) -> u64 {
    bytes(&[u8::from(value)])
}

pub(super) fn int32(value: i32) -> u64 {
    bytes(&value.to_le_bytes())
}

pub(super) fn int64(value: i64) -> u64 {
    bytes(&value.to_le_bytes())
}

/// Order matters.
fn pair(first: u64, second: u64) -> u64 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&first.to_le_bytes());
    both[8..].copy_from_slice(&second.to_le_bytes());
    bytes(&both)
}

fn finish(hash: u64) -> u64 {
    bytes(&hash.to_le_bytes())
}

/// Entries in any order.
pub(super) fn map<'a, V: 'a>(
    entries: impl IntoIterator<Item = (&'a String, &'a V)>,
    value: impl Fn(&'a V) -> u64,
) -> u64 {
    finish(entries.into_iter().fold(0, |hash, (key, v)| hash ^ pair(text(key), value(v))))
}

/// Elements in any order; equal ones cancel out, and an empty list is 0.
pub(super) fn list<'a, T: 'a>(items: impl IntoIterator<Item = &'a T>, item: impl Fn(&'a T) -> u64) -> u64 {
    items.into_iter().fold(0, |hash, element| hash ^ item(element))
}

/// A Go struct: its type's name, then the fields that are not zero, in the order of their declaration.
pub(super) struct Struct(u64);

impl Struct {
    pub(super) fn new(type_name: &str) -> Self {
        Self(text(type_name))
    }

    /// A field that is set. A pointer to a zero value is set.
    pub(super) fn field(self, name: &str, value: u64) -> Self {
        Self(finish(self.0 ^ pair(text(name), value)))
    }

    /// A pointer, map or slice, which is zero only when absent.
    pub(super) fn optional<T>(self, name: &str, value: Option<T>, hash: impl FnOnce(T) -> u64) -> Self {
        match value {
            Some(value) => self.field(name, hash(value)),
            None => self,
        }
    }

    /// A plain string, which is zero when empty.
    pub(super) fn plain_text(self, name: &str, value: &str) -> Self {
        if value.is_empty() { self } else { self.field(name, text(value)) }
    }

    /// A plain integer, which is zero when 0.
    pub(super) fn plain_int32(self, name: &str, value: i32) -> Self {
        if value == 0 { self } else { self.field(name, int32(value)) }
    }

    /// A plain boolean, which is zero when false.
    pub(super) fn plain_boolean(self, name: &str, value: bool) -> Self {
        if value { self.field(name, boolean(value)) } else { self }
    }

    pub(super) fn end(self) -> u64 {
        self.0
    }
}
