//! The contracts against their recorded wire form (`wire.txt`): what was published once keeps its number, type and name.

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
fn wire() -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    for file in ours() {
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

#[test]
fn nothing_that_was_published_changed_on_the_wire() {
    let now = wire();
    let broken: Vec<String> = RECORDED
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(path, facts)| now.get(*path).map(String::as_str) != Some(*facts))
        .map(|(path, facts)| {
            format!("{path}: was `{facts}`, is `{}`", now.get(path).map_or("gone", |now| now))
        })
        .collect();
    assert!(broken.is_empty(), "these changes break peers of an older version:\n{}", broken.join("\n"));
}

#[test]
fn everything_published_is_recorded() {
    let now = rendered(&wire());
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
