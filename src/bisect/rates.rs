//! Owns what is believed of the rates: how often a failing point shows the failure, and how often a passing one seems to.
//!
//! Invariant: a failing point shows the failure more often than a passing one; with an exact signature that one is near zero.
//! It knows nothing of points.

/// How often a point without the change shows this very failure: a signature is exact, so that one hit is almost proof.
const FALSE_HIT: f64 = 0.001;
/// How often a point with a deterministic failure does not show it.
const SURE: f64 = 0.999;
/// What a failure is believed to be before it has been seen twice.
const SURE_WEIGHT: f64 = 0.8;
/// Rates of a failure that comes and goes, and how likely each is: what is brought to a bisection seldom fails seldom.
const FLAKY: [(f64, f64); 10] = [
    (0.05, 0.01),
    (0.1, 0.02),
    (0.2, 0.07),
    (0.3, 0.1),
    (0.4, 0.1),
    (0.5, 0.14),
    (0.6, 0.14),
    (0.7, 0.14),
    (0.8, 0.14),
    (0.9, 0.14),
];

/// Rates with their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Rate of the failing side, and how much it is believed.
    pub failing: Vec<(f64, f64)>,
    /// Rate of the passing side.
    pub passing: f64,
}

impl Default for Rates {
    /// Unknown: most failures come each time, the others at any rate.
    fn default() -> Self {
        let mut failing: Vec<(f64, f64)> =
            FLAKY.iter().map(|(rate, share)| (*rate, share * (1.0 - SURE_WEIGHT))).collect();
        failing.push((SURE, SURE_WEIGHT));
        Self { failing, passing: FALSE_HIT }
    }
}

impl Rates {
    /// A known rate.
    pub fn known(failing: f64) -> Self {
        Self { failing: vec![(failing.min(SURE), 1.0)], passing: FALSE_HIT }
    }

    /// How much it is believed that the failure comes each time.
    pub(super) fn steady(&self, believed: &[f64]) -> f64 {
        self.failing.iter().zip(believed).filter(|((rate, _), _)| *rate >= SURE).map(|(_, weight)| weight).sum()
    }

    /// The probability that a failing point shows nothing in `misses` runs, after these were believed of its rate.
    pub(super) fn silence(&self, believed: &[f64], misses: u32) -> f64 {
        let times = i32::try_from(misses).unwrap_or(i32::MAX);
        self.failing.iter().zip(believed).map(|((rate, _), weight)| weight * (1.0 - rate).powi(times)).sum()
    }
}

/// Entropy of a coin in bits.
pub(super) fn entropy(chance: f64) -> f64 {
    let term = |p: f64| if p <= 0.0 { 0.0 } else { -p * p.log2() };
    term(chance) + term(1.0 - chance)
}
