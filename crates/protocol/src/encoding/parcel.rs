//! A pack that waits in another partition than its own, because its own cannot be reached.

use crate::encoding::pack::{read_text, write, write_text};
use crate::{Digest, Progress};

/// A pack with all that its publish needs. Its bytes are a msgpack array `[partition, first, count, packs
/// made, messages made, digest, is scheduled, cursor, pack]`; the digest is empty in a fleet that keeps no ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The partition that it is for.
    pub partition: u32,
    /// Sequence number of its first message.
    pub first: u64,
    /// How many messages it has.
    pub count: u64,
    /// What the fleet has made with it, in all partitions.
    pub made: Progress,
    /// Digest of its texts, if the fleet is audited.
    pub digest: Option<Digest>,
    /// Whether its messages were due at certain times.
    pub is_scheduled: bool,
    /// Where the source stands after it.
    pub cursor: Vec<u8>,
    /// The pack.
    pub pack: Vec<u8>,
}

impl Parcel {
    /// The field under which a pack of this partition waits that begins with this number.
    pub fn field(partition: u32, first: u64) -> String {
        format!("{partition}:{first}")
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.cursor.len() + self.pack.len() + 64);
        write(&mut bytes, |bytes| rmp::encode::write_array_len(bytes, 9));
        let partition = u64::from(self.partition);
        let Progress { packs, messages } = self.made;
        for number in [partition, self.first, self.count, packs, messages] {
            write(&mut bytes, |bytes| rmp::encode::write_uint(bytes, number));
        }
        let digest = self.digest.map(|digest| digest.to_string());
        write_text(&mut bytes, digest.unwrap_or_default().as_bytes());
        write(&mut bytes, |bytes| {
            rmp::encode::write_uint(bytes, u64::from(self.is_scheduled))
        });
        write_text(&mut bytes, &self.cursor);
        write_text(&mut bytes, &self.pack);
        bytes
    }

    /// Reads a parcel; none if no generator wrote the bytes.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        if rmp::decode::read_array_len(bytes).ok()? != 9 {
            return None;
        }
        let mut number = || rmp::decode::read_int::<u64, _>(bytes).ok();
        let partition = u32::try_from(number()?).ok()?;
        let (first, count) = (number()?, number()?);
        let made = Progress {
            packs: number()?,
            messages: number()?,
        };
        let digest = match read_text(bytes)? {
            b"" => None,
            digits => Some(Digest::parse(str::from_utf8(digits).ok()?)?),
        };
        let is_scheduled = rmp::decode::read_int::<u64, _>(bytes).ok()? == 1;
        let (cursor, pack) = (read_text(bytes)?.to_vec(), read_text(bytes)?.to_vec());
        let parcel = Self {
            partition,
            first,
            count,
            made,
            digest,
            is_scheduled,
            cursor,
            pack,
        };
        (bytes.is_empty() && count > 0 && first > 0).then_some(parcel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_reads_back_and_other_bytes_do_not() {
        for digest in [None, Some(Digest::of(0, b"text"))] {
            let parcel = Parcel {
                partition: 7,
                first: 1 << 40,
                count: 1000,
                made: Progress {
                    packs: 3,
                    messages: 1 << 50,
                },
                digest,
                is_scheduled: true,
                cursor: b"lsn:0".to_vec(),
                pack: vec![255; 70_000],
            };
            let bytes = parcel.encode();
            assert_eq!(Parcel::decode(&bytes), Some(parcel));
            for cut in (0..100).chain([bytes.len() - 1]) {
                assert_eq!(Parcel::decode(&bytes[..cut]), None, "{cut}");
            }
        }
        assert_eq!(Parcel::decode(b"garbage"), None);
    }
}
