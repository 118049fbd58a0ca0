//! How messages between pilot and server are read: prost's way, after a look at how much a message
//! from a pilot would become. Two bytes name an empty entry that takes a hundred in memory, so it
//! is the entries that are counted, before anything is made of them.

use crate::link::{MAX_ENTRIES, MAX_FROM_PILOT, MAX_SERIES_BYTES};
use crate::wire;
use prost::Message;
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// What is checked of a message before it is read.
pub trait Checked {
    fn check(bytes: &[u8]) -> Result<(), Status>;
}

/// What the server says is trusted with its size.
impl Checked for wire::ToPilot {
    fn check(_: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

impl Checked for wire::Shown {
    fn check(_: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

/// It has no entries: what it becomes is as large as it is, which its service bounds.
impl Checked for wire::LogChunk {
    fn check(_: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

/// Plain fields, whose size their service bounds.
macro_rules! plain {
    ($($message:ident)+) => {
        $(impl Checked for wire::$message {
            fn check(_: &[u8]) -> Result<(), Status> {
                Ok(())
            }
        })+
    };
}
plain!(FetchFiles FilePiece Stored OfferFiles WantedFiles);

impl Checked for wire::ToServer {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        if bytes.len() > MAX_FROM_PILOT {
            let what = format!("a message of {} bytes; at most {MAX_FROM_PILOT}", bytes.len());
            return Err(Status::resource_exhausted(what));
        }
        match entries(bytes) {
            Some(entries) if entries <= MAX_ENTRIES => Ok(()),
            Some(_) => {
                let what = format!("a message names more than {MAX_ENTRIES} attempts");
                Err(Status::resource_exhausted(what))
            }
            None => Err(Status::invalid_argument("a message cannot be read")),
        }
    }
}

/// A message that is looked into, and which of its fields are messages to be looked into as well:
/// lists of their own are in them, or they are large in memory. What else is in a field is as large
/// in memory as it is on the wire.
struct Part {
    /// Entries that it counts for itself, and for each field in it.
    own: usize,
    each: usize,
    parts: &'static [(u32, Part)],
}

const fn with(parts: &'static [(u32, Part)]) -> Part {
    Part { own: 0, each: 1, parts }
}

const PLAIN: Part = with(&[]);
/// `NodeAd`, with its capacity and its GPUs, which have versions.
const AD: Part = with(&[(2, PLAIN), (3, PLAIN), (7, with(&[(1, PLAIN)]))]);
/// `Usage`: two bytes are as large in memory as three attempts.
const USAGE: Part = Part { own: 3, each: 0, parts: &[] };
/// `Held`, which is an entry already.
const HELD: Part = Part { own: 0, each: 0, parts: &[(6, USAGE)] };
/// `Hello`, with its ad and what it holds.
const HELLO: Part = with(&[(7, HELD), (10, AD)]);
const REPORT: Part = with(&[(4, HELD)]);
const PARTS: Part = with(&[(1, HELLO), (2, REPORT), (8, AD)]);
/// `SeriesReport`.
const SERIES: u32 = 9;

/// Fields of all parts of a message; `None` where it is none. Parts of one name add up, as they do
/// when they are read. It ends at the first one over the most.
fn entries(mut message: &[u8]) -> Option<usize> {
    let (mut found, mut series) = (0, 0);
    while message.has_remaining() {
        let (number, part) = field(&mut message)?;
        // Lists of numbers: there are few, whatever form they come in.
        if number == SERIES {
            series += part.map_or(0, <[u8]>::len);
            if series > MAX_SERIES_BYTES {
                return Some(MAX_ENTRIES + 1);
            }
        }
        // All parts are messages.
        count(part.unwrap_or_default(), PARTS.part(number).unwrap_or(&PLAIN), &mut found)?;
        if found > MAX_ENTRIES {
            break;
        }
    }
    Some(found)
}

impl Part {
    fn part(&self, number: u32) -> Option<&Part> {
        self.parts.iter().find(|(known, _)| *known == number).map(|(_, part)| part)
    }
}

/// A message that is read here only up to a place that prost steps over could have any number of
/// entries behind it: so it is read to its end, or is none.
fn count(mut message: &[u8], of: &Part, found: &mut usize) -> Option<()> {
    while message.has_remaining() && *found <= MAX_ENTRIES {
        let (number, inside) = field(&mut message)?;
        *found += of.each;
        if let (Some(part), Some(inside)) = (of.part(number), inside) {
            *found += part.own;
            count(inside, part, found)?;
        }
    }
    Some(())
}

/// Takes one field off: its number and, if that may be a message, what is in it.
fn field<'a>(from: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let (number, kind) = decode_key(from).ok()?;
    let length = match kind {
        WireType::Varint => {
            decode_varint(from).ok()?;
            0
        }
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::LengthDelimited => usize::try_from(decode_varint(from).ok()?).ok()?,
        // Nobody writes groups any more.
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (inside, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some((number, (kind == WireType::LengthDelimited).then_some(inside)))
}

/// The codec that the generated code uses.
#[derive(Debug, Clone)]
pub struct LinkCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for LinkCodec<T, U> {
    fn default() -> Self {
        LinkCodec(PhantomData)
    }
}

impl<T, U> Codec for LinkCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Checked + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CheckedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        CheckedDecoder(ProstCodec::<T, U>::raw_decoder(BufferSettings::default()))
    }
}

#[derive(Debug, Clone)]
pub struct CheckedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + Checked> Decoder for CheckedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // All of the message is in one piece: tonic waits for it in a buffer of its own.
        U::check(buf.chunk())?;
        self.0.decode(buf)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::MAX_USAGES;
    use wire::to_server::Body;

    fn check(body: Body) -> Result<(), Status> {
        wire::ToServer::check(&wire::ToServer { body: Some(body) }.encode_to_vec())
    }

    fn report(held: usize) -> Body {
        Body::Report(wire::Report { number: 0, held: vec![wire::Held::default(); held] })
    }

    #[test]
    fn entries_are_counted_before_they_are_made() {
        assert!(check(report(MAX_ENTRIES)).is_ok());
        assert!(check(report(MAX_ENTRIES + 1)).is_err());
        let hello =
            wire::Hello { held: vec![wire::Held::default(); MAX_ENTRIES], ..Default::default() };
        assert!(check(Body::Hello(hello.clone())).is_ok());
        assert!(check(Body::Hello(wire::Hello { session: 1, ..hello })).is_err());
        // Two reports in one message are read as one.
        let half = wire::ToServer { body: Some(report(MAX_ENTRIES / 2 + 1)) }.encode_to_vec();
        assert!(wire::ToServer::check(&half).is_ok());
        assert!(wire::ToServer::check(&half.repeat(2)).is_err());
    }

    /// Whatever is a list in an ad, wherever the ad is.
    #[test]
    fn entries_of_an_ad_are_counted_too() {
        let texts = |count| vec![String::new(); count];
        let gpu = |count| wire::GpuDevice { driver: vec![0; count], ..Default::default() };
        let lists: [fn(&mut wire::NodeAd, usize); 4] = [
            |ad, count| ad.notes = vec![String::new(); count],
            |ad, count| ad.gpus = vec![wire::GpuDevice::default(); count],
            |ad, count| ad.withheld = vec![wire::Withheld::default(); count],
            |ad, count| {
                let named = (0..count as u64).map(|name| (name.to_string(), 1)).collect();
                ad.capacity = Some(wire::Amounts { named, ..Default::default() });
            },
        ];
        for (at, fill) in lists.iter().enumerate() {
            for (count, is_taken) in [(MAX_ENTRIES / 2, true), (MAX_ENTRIES + 1, false)] {
                let mut ad = wire::NodeAd::default();
                fill(&mut ad, count);
                let hello = wire::Hello { ad: Some(ad.clone()), ..Default::default() };
                assert_eq!(check(Body::Hello(hello)).is_ok(), is_taken, "list {at}, {count}");
                assert_eq!(check(Body::Ad(ad)).is_ok(), is_taken, "list {at}, {count}");
            }
        }
        // Versions are packed by us; whoever does not makes a field of each number.
        let packed = wire::NodeAd { gpus: vec![gpu(9)], notes: texts(9), ..Default::default() };
        assert!(check(Body::Ad(packed)).is_ok());
        let unpacked = [0x38, 0].repeat(MAX_ENTRIES + 1);
        let wrapped = [0x1a, 0x42].into_iter().fold(unpacked, |inside, key| {
            let mut message = vec![key];
            prost::encoding::encode_varint(inside.len() as u64, &mut message);
            [message, inside].concat()
        });
        let read = wire::ToServer::decode(&wrapped[..]).expect("prost reads it").body;
        assert!(matches!(read, Some(Body::Ad(ad)) if ad.gpus[0].driver.len() > MAX_ENTRIES));
        assert!(wire::ToServer::check(&wrapped).is_err());
    }

    #[test]
    fn sums_count_for_what_they_take() {
        let used = wire::Held { usage: Some(Box::default()), ..Default::default() };
        let said =
            |count| Body::Report(wire::Report { number: 0, held: vec![used.clone(); count] });
        assert!(check(said(MAX_USAGES)).is_ok());
        assert!(check(said(MAX_ENTRIES / 4 + 1)).is_err());
        let held = vec![used.clone(); MAX_ENTRIES / 4 + 1];
        assert!(check(Body::Hello(wire::Hello { held, ..Default::default() })).is_err());
    }

    /// However they are written, and in one piece or in several that are read as one.
    #[test]
    fn series_are_short() {
        let of = |points| wire::Series { cpu: vec![1; points], ..Default::default() };
        let said = |points| Body::Series(wire::SeriesReport { series: vec![of(points)] });
        assert!(check(said(MAX_SERIES_BYTES - 100)).is_ok());
        assert!(check(said(MAX_SERIES_BYTES + 100)).is_err());
        let half = wire::ToServer { body: Some(said(MAX_SERIES_BYTES / 2)) }.encode_to_vec();
        assert!(wire::ToServer::check(&half).is_ok());
        assert!(wire::ToServer::check(&half.repeat(3)).is_err());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert!(wire::ToServer::check(&[0x0a, 0xff]).is_err());
        assert!(wire::ToServer::check(&vec![0; MAX_FROM_PILOT + 1]).is_err());
        // An empty group, which prost steps over, before more entries than there may be.
        let mut hello = vec![0x63, 0x64];
        hello.extend([0x3a, 0].repeat(MAX_ENTRIES + 1));
        let mut message = vec![0x0a];
        prost::encoding::encode_varint(hello.len() as u64, &mut message);
        message.extend(hello);
        let read = wire::ToServer::decode(&message[..]).expect("prost reads it").body;
        assert!(matches!(read, Some(Body::Hello(hello)) if hello.held.len() == MAX_ENTRIES + 1));
        assert!(wire::ToServer::check(&message).is_err());
    }
}
