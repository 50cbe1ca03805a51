//! By zstd.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

/// See `docs/cost.md`: higher levels take longer, and save little or nothing.
const LEVEL: i32 = 1;

/// What is compressed so far. A `Vec` by itself would make room for twice of what it has.
struct Compressed {
    bytes: Vec<u8>,
    /// By how many bytes it grows at the least.
    step: usize,
}

impl Write for Compressed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.bytes.reserve_exact(self.step.max(bytes.len()));
        }
        self.bytes.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The pieces one after the other as one frame, which tells its plain length, and which `expected` bytes
/// may be enough for. `None` where the library
/// has no memory.
pub(super) fn compress(pieces: &[&[u8]], expected: usize) -> Option<Vec<u8>> {
    let plain: usize = pieces.iter().map(|piece| piece.len()).sum();
    let compressed = Compressed { bytes: Vec::with_capacity(expected), step: plain / 16 };
    let mut encoder = Encoder::new(compressed, LEVEL).ok()?;
    // Lets the library size its tables and its window to what comes.
    encoder.set_pledged_src_size(u64::try_from(plain).ok()).ok()?;
    for piece in pieces {
        encoder.write_all(piece).ok()?;
    }
    let mut bytes = encoder.finish().ok()?.bytes;
    // To shrink may take both lengths for a moment.
    if bytes.capacity() - bytes.len() > plain / 8 {
        bytes.shrink_to_fit();
    }
    Some(bytes)
}

/// Never takes more memory than for `plain` bytes, whatever the frame says of itself.
pub(super) fn decompress(compressed: &[u8], plain: usize) -> Result<Vec<u8>, &'static str> {
    match zstd::bulk::decompress(compressed, plain) {
        Ok(bytes) if bytes.len() == plain => Ok(bytes),
        Ok(_) => Err("it is shorter than it should be"),
        Err(_) => Err("it cannot be decompressed to the length that it should have"),
    }
}
