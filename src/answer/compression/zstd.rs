//! Compression with zstd.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

/// See `docs/cost.md`: higher levels take longer and save little or nothing.
const LEVEL: i32 = 1;

/// The output buffer. A plain `Vec` would double its capacity.
struct Compressed {
    bytes: Vec<u8>,
    /// The least number of bytes by which the buffer grows.
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

/// Compresses the pieces into one frame, which contains their total length. `expected` is the
/// initial capacity. Returns `None` if the library has no memory.
pub(super) fn compress(pieces: &[&[u8]], expected: usize) -> Option<Vec<u8>> {
    let plain: usize = pieces.iter().map(|piece| piece.len()).sum();
    let compressed = Compressed { bytes: Vec::with_capacity(expected), step: plain / 16 };
    let mut encoder = Encoder::new(compressed, LEVEL).ok()?;
    // The library adapts its tables and its window to this length.
    encoder.set_pledged_src_size(u64::try_from(plain).ok()).ok()?;
    for piece in pieces {
        encoder.write_all(piece).ok()?;
    }
    let mut bytes = encoder.finish().ok()?.bytes;
    // Shrinking may briefly keep both buffers, so a small surplus stays.
    if bytes.capacity() - bytes.len() > plain / 8 {
        bytes.shrink_to_fit();
    }
    Some(bytes)
}

/// Allocates at most `plain` bytes, whatever length the frame claims.
pub(crate) fn decompress(compressed: &[u8], plain: usize) -> Result<Vec<u8>, &'static str> {
    match zstd::bulk::decompress(compressed, plain) {
        Ok(bytes) if bytes.len() == plain => Ok(bytes),
        Ok(_) => Err("it is shorter than the recorded length"),
        Err(_) => Err("it cannot be decompressed to the recorded length"),
    }
}
