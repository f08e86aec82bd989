//! Updates as the bytes of a gRPC message: a flag, a length, the message. Written here and not by the gRPC library, because it
//! writes for each stream anew what all of them can share.

use prost::Message as _;
use prost::bytes::{BufMut as _, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use proto::pricingcache::v1 as pb;
use proto::pricingcache::v1::catalog_update::Update;

use super::snapshot;
use crate::catalogue::Catalogue;

/// Which version an update leads to.
#[derive(Clone, Copy)]
pub(crate) struct Numbered<'a> {
    pub(crate) epoch: &'a str,
    pub(crate) version: u64,
}

/// Tag of `CatalogUpdate.snapshot`.
const SNAPSHOT: u32 = 3;
/// Not compressed, then four bytes of length.
const HEAD: usize = 5;

pub(crate) fn framed_delta(numbered: Numbered<'_>, delta: pb::CatalogDelta) -> Bytes {
    let update = numbered.with(Some(Update::Delta(delta)));
    let length = update.encoded_len();
    let mut frame = begin(length);
    update.encode(&mut frame).expect("the buffer grows");
    frame.freeze()
}

/// The snapshot is written type by type: as one message of its own it would be held in memory twice.
pub(crate) fn framed_snapshot(numbered: Numbered<'_>, catalogue: &Catalogue) -> Bytes {
    let outer = numbered.with(None);
    let snapshot = snapshot::Encoded::of(catalogue);
    let inner = snapshot.len();
    let length = outer.encoded_len() + key_len(SNAPSHOT) + encoded_len_varint(inner as u64) + inner;
    let mut frame = begin(length);
    outer.encode(&mut frame).expect("the buffer grows");
    encode_key(SNAPSHOT, WireType::LengthDelimited, &mut frame);
    encode_varint(inner as u64, &mut frame);
    snapshot.write(catalogue, &mut frame);
    frame.freeze()
}

fn begin(length: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).expect("a catalogue is a few megabytes"));
    frame
}

impl Numbered<'_> {
    fn with(self, update: Option<Update>) -> pb::CatalogUpdate {
        pb::CatalogUpdate { epoch: self.epoch.to_owned(), version: self.version, update }
    }
}

/// What a client reads.
pub(crate) fn unframed(frame: &Bytes) -> pb::CatalogUpdate {
    pb::CatalogUpdate::decode(frame.slice(HEAD..)).expect("written by this process")
}
