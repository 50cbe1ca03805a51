//! Compression with zstd.
//!
//! A thread keeps its contexts: making one takes longer than compressing a few KB. They hold some 100 KB.

use std::cell::RefCell;
use std::io::{self, Write};

use zstd::bulk::{Compressor, Decompressor};
use zstd::stream::write::Encoder;

/// See `docs/cost.md`: higher levels take longer and save little or nothing.
const LEVEL: i32 = 1;

/// The most bytes that are compressed by the thread's context, whose memory grows with the input.
const KEPT_CONTEXT_BYTES: usize = 32 * 1024;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses the pieces into one frame, which contains their total length. `expected` is the
/// initial capacity for a long input. Returns `None` if the library has no memory.
pub(super) fn compress(pieces: &[&[u8]], expected: usize) -> Option<Vec<u8>> {
    let plain: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut bytes = if plain <= KEPT_CONTEXT_BYTES {
        compress_at_once(&pieces.concat())?
    } else {
        compress_as_stream(pieces, plain, expected)?
    };
    // Shrinking may briefly keep both buffers, so a small surplus stays.
    if bytes.capacity() - bytes.len() > plain / 8 {
        bytes.shrink_to_fit();
    }
    Some(bytes)
}

fn compress_at_once(plain: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(LEVEL).ok()?),
        };
        compressor.compress(plain).ok()
    })
}

fn compress_as_stream(pieces: &[&[u8]], plain: usize, expected: usize) -> Option<Vec<u8>> {
    let compressed = Compressed { bytes: Vec::with_capacity(expected), step: plain / 16 };
    let mut encoder = Encoder::new(compressed, LEVEL).ok()?;
    // The library adapts its tables and its window to this length.
    encoder.set_pledged_src_size(u64::try_from(plain).ok()).ok()?;
    for piece in pieces {
        encoder.write_all(piece).ok()?;
    }
    Some(encoder.finish().ok()?.bytes)
}

/// The output buffer of a stream. A plain `Vec` would double its capacity.
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

/// Allocates at most `plain` bytes, whatever length the frame claims.
pub(crate) fn decompress(compressed: &[u8], plain: usize) -> Result<Vec<u8>, &'static str> {
    let decompressed = DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress(compressed, plain)
    });
    match decompressed {
        Ok(bytes) if bytes.len() == plain => Ok(bytes),
        Ok(_) => Err("it is shorter than the recorded length"),
        Err(_) => Err("it cannot be decompressed to the recorded length"),
    }
}
