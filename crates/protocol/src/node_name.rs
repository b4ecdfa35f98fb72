//! Names of nodes.

/// A random name for a node or a command: ten letters and digits, 50 bits.
pub fn new_name() -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..10)
        .map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]))
        .collect()
}
