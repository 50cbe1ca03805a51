//! By zstd.

use std::io::Write as _;

use zstd::stream::write::Encoder;

/// Measured in `docs/cost.md`: higher levels take much longer and save little.
const LEVEL: i32 = 3;

/// The pieces one after the other as one frame, which tells its plain length. `None` where the library
/// has no memory.
pub(super) fn compress(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let plain: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut encoder = Encoder::new(Vec::new(), LEVEL).ok()?;
    // Lets the library size its tables and its window to what comes.
    encoder.set_pledged_src_size(u64::try_from(plain).ok()).ok()?;
    for piece in pieces {
        encoder.write_all(piece).ok()?;
    }
    encoder.finish().ok()
}

/// Never takes more memory than for `plain` bytes, whatever the frame says of itself.
pub(super) fn decompress(compressed: &[u8], plain: usize) -> Result<Vec<u8>, &'static str> {
    match zstd::bulk::decompress(compressed, plain) {
        Ok(bytes) if bytes.len() == plain => Ok(bytes),
        Ok(_) => Err("it is shorter than it should be"),
        Err(_) => Err("it cannot be decompressed to the length that it should have"),
    }
}
