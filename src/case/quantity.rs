//! Owns how durations, sizes and counts are written: `120s`, `30m`, `16GiB`.
//!
//! Invariant: what is not understood to the last character is refused with what is accepted.
//! Must not guess a unit for a size.

use std::time::Duration;

/// What a duration looks like, for messages.
pub const DURATION: &str = "a duration such as 120s, 30m or 2h";
/// What a size looks like, for messages.
pub const SIZE: &str = "a size such as 512MiB or 16GiB";

/// Parses `90`, `1.5s`, `500ms`, `30m`, `2h`, `1h30m`; a bare number is seconds. Zero is refused.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("expected {DURATION}");
    let mut seconds = 0.0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(refused());
    }
    let mut last_unit = f64::INFINITY;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| refused())?;
        let tail = rest[end..].trim_start();
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(tail.len());
        let unit = match &tail[..unit_end] {
            "" if end == text.trim().len() => 1.0,
            "ms" => 0.001,
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return Err(refused()),
        };
        if unit >= last_unit {
            return Err(refused());
        }
        last_unit = unit;
        seconds += number * unit;
        rest = tail[unit_end..].trim_start();
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration.is_zero() => Err(format!("{}, more than zero", refused())),
        // A longer time cannot be added to the clock everywhere.
        Ok(duration) if duration > Duration::from_secs(366 * 86400) => Err(format!("{}, at most 366d", refused())),
        Ok(duration) => Ok(duration),
        Err(_) => Err(refused()),
    }
}

/// Parses `16GiB`, `16G`, `512MB`, `1.5 GiB` into bytes; a unit is required.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let refused = || format!("expected {SIZE}");
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| refused())?;
    let unit: u64 = match text[end..].trim() {
        "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1 << 40,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(refused()),
    };
    let bytes = number * unit as f64;
    if bytes >= 1.0 && bytes < (1u64 << 60) as f64 { Ok(bytes as u64) } else { Err(refused()) }
}

/// Parses a count of one or more.
pub fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number, 1 or more".to_owned()),
        Ok(count) => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_every_usual_form() {
        let cases = [
            ("120s", 120.0),
            ("30m", 1800.0),
            ("2h", 7200.0),
            ("90", 90.0),
            ("1h30m", 5400.0),
            ("1.5s", 1.5),
            ("250ms", 0.25),
            ("1h 5s", 3605.0),
            ("1d", 86400.0),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn durations_that_mean_nothing_are_refused() {
        for text in ["", "s", "10x", "-5s", "0s", "5m2h", "1h30", "1..5s", "1e9h", "999999999d", "ten"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("10x").unwrap_err(), "expected a duration such as 120s, 30m or 2h");
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        assert_eq!(parse_size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse_size("512MB"), Ok(512_000_000));
        for text in ["16", "", "GiB", "0GiB", "-1GiB", "16Gib", "99999999TiB"] {
            assert_eq!(parse_size(text).unwrap_err(), "expected a size such as 512MiB or 16GiB", "{text}");
        }
    }
}
