//! Every method of every service, fed with arbitrary protobuf: well-formed messages of its own type with values at the edges,
//! and broken ones. A service answers each, panics at none, does not grow and goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream;
use integration::rpc::Impersonation;
use integration::{Service, Stack, Test, test};
use prost::Message as _;
use prost::bytes::{Buf as _, BufMut as _};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use runtime::grpc::Caller;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test!("rpc_fuzz", alone, arbitrary_requests_are_answered_without_a_panic),
        test!("rpc_fuzz", soak, many_arbitrary_requests_are_answered_without_a_panic),
    ]
}

const CASES: u64 = 60;
const CASES_OF_SOAK: u64 = 3000;
const DEEPEST: u32 = 5;
/// What a service may grow by while it answers: buffers, caches of refusals, pages of metrics.
const GROWTH: u64 = 256 << 20;
/// A stream of updates stays open; its beginning is enough.
const LISTEN: Duration = Duration::from_millis(100);

async fn arbitrary_requests_are_answered_without_a_panic(stack: Stack) -> Result<()> {
    answered(&stack, CASES).await
}

async fn many_arbitrary_requests_are_answered_without_a_panic(stack: Stack) -> Result<()> {
    answered(&stack, CASES_OF_SOAK).await
}

async fn answered(stack: &Stack, cases: u64) -> Result<()> {
    let contract = Contract::read()?;
    let order = ["pricing-cache", "provisioner", "termination", "disruption", "interruption-watcher"];
    let running: Vec<Service> =
        order.iter().map(|name| Service::start(stack, name, 1, &[])).collect::<Result<_>>()?;
    let mut wrong = Vec::new();
    for (service, process) in order.iter().zip(&running) {
        let callee = runtime::Service::ALL.into_iter().find(|each| each.as_str() == *service);
        let callee = callee.context("a service")?;
        let before = process.resident_bytes()?;
        for method in contract.methods.iter().filter(|method| method.is_of(callee)) {
            let caller = admitted(stack, callee, method).await?;
            for seed in 0..cases {
                let mut dice = Dice(seed);
                let count = if method.takes_many { 1 + dice.below(4) } else { 1 };
                let messages: Vec<Vec<u8>> =
                    (0..count).map(|_| contract.request(method, &mut dice)).collect();
                let sizes: Vec<usize> = messages.iter().map(Vec::len).collect();
                if let Some(complaint) = complaint(call(caller.peers.any(), method, messages).await) {
                    wrong.push(format!("{} with seed {seed} ({sizes:?} bytes): {complaint}", method.path));
                }
            }
        }
        let after = process.resident_bytes()?;
        ensure!(after < before + GROWTH, "{service} grew from {before} to {after} bytes");
        process.admin_get("/readyz").with_context(|| format!("{service} after all of it"))?;
    }
    running.iter().rev().try_for_each(|service| service.stop(stack))?;
    ensure!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    Ok(())
}

/// Somebody whom the method is open to: a person, else a service.
async fn admitted(stack: &Stack, callee: runtime::Service, method: &Method) -> Result<Impersonation> {
    let person = Impersonation::person(stack, callee).await?;
    if is_admitted(&person, method).await {
        return Ok(person);
    }
    for caller in runtime::Service::ALL.into_iter().filter(|caller| *caller != callee) {
        let service = Impersonation::new(stack, caller, callee).await?;
        if is_admitted(&service, method).await {
            return Ok(service);
        }
    }
    anyhow::bail!("nobody may call {}", method.path)
}

async fn is_admitted(caller: &Impersonation, method: &Method) -> bool {
    let answer = call(caller.peers.any(), method, vec![Vec::new()]).await;
    !answer.is_err_and(|status| matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated))
}

/// A refusal is an answer; these are none.
fn complaint(answer: Result<(), Status>) -> Option<String> {
    let status = answer.err()?;
    let defect = matches!(
        status.code(),
        Code::Internal | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled | Code::DataLoss
    );
    // Bytes that are no message of the type are refused by the decoder, with this code.
    let undecodable = status.code() == Code::Internal && status.message().contains("failed to decode");
    (defect && !undecodable).then(|| format!("{:?}: {}", status.code(), status.message()))
}

async fn call(caller: Caller, method: &Method, messages: Vec<Vec<u8>>) -> Result<(), Status> {
    let mut client = Grpc::new(caller);
    client.ready().await.map_err(|error| Status::unavailable(format!("{error:?}")))?;
    let path =
        PathAndQuery::try_from(method.path.as_str()).map_err(|error| Status::internal(error.to_string()))?;
    let mut answers = client.streaming(Request::new(stream::iter(messages)), path, Raw).await?.into_inner();
    loop {
        match tokio::time::timeout(LISTEN, answers.message()).await {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(status)) => return Err(status),
            Err(_) if method.answers_many => return Ok(()),
            Err(_) => {}
        }
    }
}

/// Messages as bytes, both ways.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; from.remaining()];
        from.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

struct Method {
    path: String,
    input: String,
    takes_many: bool,
    answers_many: bool,
}

impl Method {
    fn is_of(&self, service: runtime::Service) -> bool {
        self.path.starts_with(&format!("/karpenter.{}.v1.", service.as_str().replace('-', "")))
    }
}

struct Contract {
    methods: Vec<Method>,
    /// By full name, with a dot in front.
    messages: BTreeMap<String, DescriptorProto>,
}

impl Contract {
    fn read() -> Result<Self> {
        let set = FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET)?;
        let (mut methods, mut messages) = (Vec::new(), BTreeMap::new());
        for file in &set.file {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                collect(&package, message, &mut messages);
            }
            for service in &file.service {
                methods.extend(service.method.iter().map(|method| Method {
                    path: format!("/{}.{}/{}", file.package(), service.name(), method.name()),
                    input: method.input_type().to_owned(),
                    takes_many: method.client_streaming(),
                    answers_many: method.server_streaming(),
                }));
            }
        }
        Ok(Self { methods, messages })
    }

    fn request(&self, method: &Method, dice: &mut Dice) -> Vec<u8> {
        let mut bytes = self.message(&method.input, dice, 0);
        if dice.below(6) == 0 && !bytes.is_empty() {
            let at = dice.index(bytes.len());
            match dice.below(3) {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << dice.below(8),
                _ => bytes.insert(at, dice.next() as u8),
            }
        }
        bytes
    }

    fn message(&self, name: &str, dice: &mut Dice, depth: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(message) = self.messages.get(name) else { return bytes };
        for field in &message.field {
            let most =
                if field.label() == prost_types::field_descriptor_proto::Label::Repeated { 4 } else { 2 };
            for _ in 0..dice.below(most) {
                self.field(field, dice, depth, &mut bytes);
            }
        }
        if dice.below(16) == 0 {
            varint(u64::from(19_000_u32) << 3, &mut bytes);
            varint(dice.next(), &mut bytes);
        }
        bytes
    }

    fn field(&self, field: &FieldDescriptorProto, dice: &mut Dice, depth: u32, bytes: &mut Vec<u8>) {
        let number = u64::try_from(field.number()).unwrap_or(1) << 3;
        match field.r#type() {
            Type::Double | Type::Fixed64 | Type::Sfixed64 => {
                varint(number | 1, bytes);
                bytes.extend(dice.integer().to_le_bytes());
            }
            Type::Float | Type::Fixed32 | Type::Sfixed32 => {
                varint(number | 5, bytes);
                bytes.extend((dice.integer() as u32).to_le_bytes());
            }
            Type::String | Type::Bytes => {
                let text = dice.text();
                varint(number | 2, bytes);
                varint(text.len() as u64, bytes);
                bytes.extend(text.as_bytes());
            }
            Type::Message | Type::Group => {
                let inner = match depth < DEEPEST {
                    true => self.message(field.type_name(), dice, depth + 1),
                    false => Vec::new(),
                };
                varint(number | 2, bytes);
                varint(inner.len() as u64, bytes);
                bytes.extend(inner);
            }
            _ => {
                varint(number, bytes);
                varint(dice.integer(), bytes);
            }
        }
    }
}

fn collect(prefix: &str, message: &DescriptorProto, into: &mut BTreeMap<String, DescriptorProto>) {
    let name = format!("{prefix}.{}", message.name());
    for nested in &message.nested_type {
        collect(&name, nested, into);
    }
    into.insert(name, message.clone());
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The same numbers from the same seed on every machine (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    fn integer(&mut self) -> u64 {
        const EDGES: [i64; 16] = [
            0,
            1,
            2,
            3,
            -1,
            60,
            999_999_999,
            1_000_000_000,
            -999_999_999,
            i32::MAX as i64,
            i32::MIN as i64,
            u32::MAX as i64,
            i64::MAX,
            i64::MIN,
            253_402_300_800,
            -62_135_596_801,
        ];
        match self.below(8) {
            0 => self.next(),
            _ => EDGES[self.index(EDGES.len())] as u64,
        }
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 24] = [
            "",
            "0",
            "1",
            "-1",
            "a",
            "cpu",
            "1m",
            "1Ki",
            "9999999999999999999999Ei",
            "1e999",
            "NaN",
            "In",
            "\u{0}",
            "❄",
            "karpenter.sh/nodepool",
            "karpenter.sh/capacity-type",
            "topology.kubernetes.io/zone",
            "spot",
            "default",
            "2026-13-45T99:99:99Z",
            "{}",
            "[[[[[[[[[[[[[[[[",
            "%s%n../../",
            "x.y.z",
        ];
        match self.below(12) {
            0 => "x".repeat(self.index(100_000)),
            1 => manifest(self.integer() as i64),
            2 => char::from_u32(self.below(0x11_0000) as u32)
                .unwrap_or('?')
                .to_string()
                .repeat(1 + self.index(9)),
            _ => WORDS[self.index(WORDS.len())].to_owned(),
        }
    }
}

/// For requests that carry objects.
fn manifest(number: i64) -> String {
    format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "a", "namespace": "b"}}, "spec": {{
        "replicas": {number}, "selector": {{}}, "template": {{"spec": {{"containers": [{{"name": "c", "resources":
        {{"requests": {{"cpu": "{number}", "memory": "{number}Gi"}}}}}}]}}}}}}}}"#
    )
}
