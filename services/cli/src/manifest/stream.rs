//! One document's top level, read as a stream: the items of a list are handed on one by one, so that the dump of a large
//! cluster is never in memory as a whole tree.

use std::fmt;

use api::convert::FieldPath;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// An object that could not be understood.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) item: Option<u32>,
    pub(super) object: String,
    pub(super) path: FieldPath,
    pub(super) problem: String,
}

/// Where objects go: index in the list (if it is one) and content.
pub(super) type Sink<'a> = dyn FnMut(Option<u32>, Value) -> Result<(), Failure> + 'a;

pub(super) struct TopLevel<'a, 's> {
    pub(super) sink: &'a mut Sink<'s>,
    /// The first failure; the parser's own error is meaningless then.
    pub(super) failure: &'a mut Option<Failure>,
}

impl TopLevel<'_, '_> {
    fn pass_on<E: serde::de::Error>(&mut self, item: Option<u32>, value: Value) -> Result<(), E> {
        (self.sink)(item, value).map_err(|mut failure| {
            failure.item = item;
            *self.failure = Some(failure);
            E::custom("stopped")
        })
    }
}

impl<'de> DeserializeSeed<'de> for TopLevel<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    /// A bare JSON array of objects.
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("a list of objects must be the items of an object of kind List"))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut fields = Map::new();
        let mut streamed = false;
        // Items of a typed list (PodList) do not say what they are; the list does, perhaps after them.
        let mut unnamed = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                streamed = true;
                map.next_value_seed(Items { top: &mut self, unnamed: &mut unnamed })?;
            } else {
                let value = map.next_value::<Value>()?;
                fields.insert(key, value);
            }
        }
        if !streamed {
            return self.pass_on(None, Value::Object(fields));
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let Some(kind) = kind.strip_suffix("List") else {
            fields.insert("items".to_owned(), Value::Null);
            return self.pass_on(None, Value::Object(fields));
        };
        for (index, mut item) in unnamed {
            if let (Value::Object(item), false) = (&mut item, kind.is_empty()) {
                item.insert("kind".to_owned(), Value::from(kind));
                item.entry("apiVersion").or_insert_with(|| Value::from(api_version.as_str()));
            }
            self.pass_on(Some(index), item)?;
        }
        Ok(())
    }
}

struct Items<'t, 'a, 's> {
    top: &'t mut TopLevel<'a, 's>,
    unnamed: &'t mut Vec<(u32, Value)>,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(item) = seq.next_element::<Value>()? {
            if item.get("kind").is_some() {
                self.top.pass_on(Some(index), item)?;
            } else {
                self.unnamed.push((index, item));
            }
            index += 1;
        }
        Ok(())
    }
}
