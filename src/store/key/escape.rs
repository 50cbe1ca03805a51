//! The escapes in the segments of a scope, and the mark of a tenant.

/// Marks the next segment as a tenant. The user's `%` is encoded as `%25`, so no user's segment
/// equals this one.
pub(super) const TENANT: &str = "%t";

/// Returns whether the text is an escaped segment.
pub(super) fn is_escaped(segment: &str) -> bool {
    let is_escape = |after: &str| ["25", "23", "2F"].iter().any(|code| after.starts_with(code));
    !segment.contains('#') && segment.split('%').skip(1).all(is_escape)
}

pub(super) fn escape_segment(into: &mut String, segment: &str) {
    for c in segment.chars() {
        match c {
            '%' => into.push_str("%25"),
            '#' => into.push_str("%23"),
            '/' => into.push_str("%2F"),
            other => into.push(other),
        }
    }
}
