//! The contracts against their recorded wire form (`wire.txt`): what was published once keeps its number, type and name.
//! `make release` compares the record with that of the last tag, so that a line cannot be taken out of it either.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};

const RECORDED: &str = include_str!("wire.txt");

fn ours() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).expect("build.rs wrote it");
    set.file.into_iter().filter(|file| file.package().starts_with("karpenter.")).collect()
}

/// One line for each thing whose change would break a peer: `path = wire facts`.
fn wire(files: &[FileDescriptorProto]) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    for file in files {
        let package = file.package().to_owned();
        for message in &file.message_type {
            message_lines(&format!("{package}.{}", message.name()), message, &mut lines);
        }
        for enumeration in &file.enum_type {
            enum_lines(&format!("{package}.{}", enumeration.name()), enumeration, &mut lines);
        }
        for service in &file.service {
            for method in &service.method {
                let stream = |on: bool| if on { "stream " } else { "" };
                lines.insert(
                    format!("rpc {package}.{}/{}", service.name(), method.name()),
                    format!(
                        "{}{} -> {}{}",
                        stream(method.client_streaming()),
                        method.input_type(),
                        stream(method.server_streaming()),
                        method.output_type()
                    ),
                );
            }
        }
    }
    lines
}

fn message_lines(path: &str, message: &DescriptorProto, lines: &mut BTreeMap<String, String>) {
    for field in &message.field {
        lines.insert(format!("field {path}#{:05}", field.number()), field_facts(field));
    }
    for nested in &message.nested_type {
        message_lines(&format!("{path}.{}", nested.name()), nested, lines);
    }
    for nested in &message.enum_type {
        enum_lines(&format!("{path}.{}", nested.name()), nested, lines);
    }
}

fn enum_lines(path: &str, enumeration: &EnumDescriptorProto, lines: &mut BTreeMap<String, String>) {
    for value in &enumeration.value {
        lines.insert(format!("value {path}#{:05}", value.number()), value.name().to_owned());
    }
}

fn field_facts(field: &FieldDescriptorProto) -> String {
    let oneof = if field.oneof_index.is_some() { " oneof" } else { "" };
    format!("{} {:?} {:?}{} {}", field.name(), field.label(), field.r#type(), oneof, field.type_name())
        .trim_end()
        .to_owned()
}

fn rendered(lines: &BTreeMap<String, String>) -> String {
    lines.iter().map(|(path, facts)| format!("{path} = {facts}\n")).collect()
}

/// What a peer with the recorded contracts would no longer understand. Additions are compatible.
fn broken(recorded: &str, now: &BTreeMap<String, String>) -> Vec<String> {
    recorded
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(path, facts)| now.get(*path).map(String::as_str) != Some(*facts))
        .map(|(path, facts)| {
            format!("{path}: was `{facts}`, is `{}`", now.get(path).map_or("removed", |now| now))
        })
        .collect()
}

#[test]
fn nothing_that_was_published_changed_on_the_wire() {
    let broken = broken(RECORDED, &wire(&ours()));
    assert!(broken.is_empty(), "these changes break peers of an older version:\n{}", broken.join("\n"));
}

/// Applies one change to the contracts and returns what it breaks.
fn after(change: impl FnOnce(&mut FileDescriptorProto)) -> Vec<String> {
    let mut files = ours();
    let recorded = rendered(&wire(&files));
    change(files.iter_mut().find(|file| !file.service.is_empty()).expect("a file with a service"));
    broken(&recorded, &wire(&files))
}

/// The first message that has a field.
fn message(file: &mut FileDescriptorProto) -> &mut DescriptorProto {
    file.message_type.iter_mut().find(|message| !message.field.is_empty()).expect("a message with fields")
}

#[test]
fn each_kind_of_incompatible_change_is_found() {
    use prost_types::field_descriptor_proto::{Label, Type};

    let found = |what: &str, broken: Vec<String>| assert!(!broken.is_empty(), "{what} was not noticed");
    found("a removed field", after(|file| drop(message(file).field.remove(0))));
    found("a renumbered field", after(|file| message(file).field[0].number = Some(4000)));
    found("a renamed field", after(|file| message(file).field[0].name = Some("other".to_owned())));
    found("a retyped field", after(|file| message(file).field[0].set_type(Type::Bytes)));
    found("a repeated field", after(|file| message(file).field[0].set_label(Label::Required)));
    found("a removed message", after(|file| file.message_type.retain(|message| message.field.is_empty())));
    found("a removed RPC", after(|file| drop(file.service[0].method.remove(0))));
    found("a removed service", after(|file| drop(file.service.remove(0))));
    found("an RPC that streams", after(|file| file.service[0].method[0].client_streaming = Some(true)));
    found(
        "another request type",
        after(|file| file.service[0].method[0].input_type = Some(".karpenter.Other".to_owned())),
    );
    found("a removed enum value", {
        let mut files = ours();
        let recorded = rendered(&wire(&files));
        let with_enum =
            files.iter_mut().find(|file| !file.enum_type.is_empty()).expect("a file with an enum");
        drop(with_enum.enum_type[0].value.remove(0));
        broken(&recorded, &wire(&files))
    });
}

#[test]
fn additions_break_nothing() {
    let added = after(|file| {
        let message = message(file);
        let mut field = message.field[0].clone();
        (field.number, field.name) = (Some(4000), Some("added".to_owned()));
        message.field.push(field);
        let mut method = file.service[0].method[0].clone();
        method.name = Some("Added".to_owned());
        file.service[0].method.push(method);
    });
    assert_eq!(added, Vec::<String>::new());
}

#[test]
fn everything_published_is_recorded() {
    let now = rendered(&wire(&ours()));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire.txt");
    let added: Vec<&str> =
        now.lines().filter(|line| !RECORDED.lines().any(|recorded| recorded == *line)).collect();
    if !added.is_empty() {
        let next = std::env::temp_dir().join("wire.txt");
        std::fs::write(&next, &now).expect("temporary directory is writable");
        panic!(
            "not recorded yet; once the additions are meant to be published, copy {} to {file}:\n{}",
            next.display(),
            added.join("\n")
        );
    }
}

#[test]
fn every_message_field_enum_and_rpc_has_a_comment() {
    let mut bare = Vec::new();
    for file in ours() {
        let info = file.source_code_info.as_ref().expect("protox keeps source info");
        for location in &info.location {
            if is_documentable(&location.path) && location.leading_comments().trim().is_empty() {
                let line = location.span.first().map_or(0, |zero_based| zero_based + 1);
                bare.push(format!("{}:{line}", file.name()));
            }
        }
    }
    bare.sort();
    bare.dedup();
    assert!(bare.is_empty(), "no comment above:\n{}", bare.join("\n"));
}

/// Descriptor paths are (field number, index) pairs: 4 message, 5 enum, 6 service in a file; 2 field, 3 nested message,
/// 4 nested enum in a message; 2 value in an enum; 2 method in a service.
fn is_documentable(path: &[i32]) -> bool {
    match path {
        [4..=6, _] => true,
        [4, _, 2, _] | [5, _, 2, _] | [6, _, 2, _] => true,
        [4, _, 3, rest @ ..] => is_documentable(&[&[4], rest].concat()),
        _ => false,
    }
}

#[test]
fn enum_zero_is_unspecified() {
    for file in ours() {
        for enumeration in &file.enum_type {
            let zero =
                enumeration.value.iter().find(|value| value.number() == 0).expect("proto3 requires it");
            assert!(
                zero.name().ends_with("_UNSPECIFIED"),
                "{}: {} is {}",
                file.name(),
                enumeration.name(),
                zero.name()
            );
        }
    }
}
