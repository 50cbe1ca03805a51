//! What is made of many measurements of one thing.

/// The middle one; of an even number, what lies between the two in the middle.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

/// The least and the most, in words.
pub(super) fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.1} – {most:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_and_the_spread_goes_to_both_ends() {
        assert!((median(&[3.0, 1.0, 9.0]) - 3.0).abs() < f64::EPSILON);
        assert!((median(&[3.0, 1.0, 9.0, 4.0]) - 3.5).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[3.0, 1.0, 9.0]), "1.0 – 9.0");
    }
}
