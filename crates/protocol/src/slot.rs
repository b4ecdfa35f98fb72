//! The slot of a key in a Redis Cluster.

/// How many slots a cluster has.
pub(crate) const SLOTS: u32 = 16384;

/// The polynomial of the CRC16 that clusters use (XMODEM).
const POLYNOMIAL: u16 = 0x1021;

/// What each value of the upper byte adds.
const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = match crc & 0x8000 {
                0 => crc << 1,
                _ => (crc << 1) ^ POLYNOMIAL,
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The slot of a hash tag, or of a key that has none.
pub(crate) fn slot(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0, |crc: u16, byte| {
        let upper = (crc >> 8) ^ u16::from(*byte);
        (crc << 8) ^ TABLE[usize::from(upper)]
    });
    crc % SLOTS as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_the_specification_of_clusters_gives() {
        // The check value of the CRC, from the specification.
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b""), 0);
    }
}
