//! Replaces compression in builds without the feature `compression`.

pub(super) fn compress(_: &[&[u8]], _: usize) -> Option<Vec<u8>> {
    None
}

pub(crate) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, &'static str> {
    Err("it is compressed, and this program was built without the feature `compression`")
}
