//! What is made of many measurements of one thing.

/// The middle one; of an even number, what lies between the two in the middle.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

/// One side as a multiple of another: within each round, the median of the rounds, least and most.
pub(super) fn ratio(theirs: &[f64], ours: &[f64]) -> String {
    let ratios: Vec<f64> = theirs.iter().zip(ours).map(|(theirs, ours)| theirs / ours).collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2} – {most:.2})", median(&ratios))
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

    #[test]
    fn sides_are_compared_within_a_round() {
        // The second round was slow for everybody.
        let ours = [100.0, 400.0, 100.0];
        assert_eq!(ratio(&[110.0, 440.0, 120.0], &ours), "1.10 (1.10 – 1.20)");
        assert_eq!(ratio(&ours, &ours), "1.00 (1.00 – 1.00)");
    }
}
