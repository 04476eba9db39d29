//! Owns the layout of an explanation as text.
//!
//! Invariant: plain lines without colours, readable in a terminal, a log and a screen reader alike.
//! Must not add facts.

use std::fmt::{self, Display, Formatter, Write};

use super::{AdviceFor, Explanation, RunExplanation, Said};
use crate::signature::Advice;
use crate::trial::{Argument, Offence, Step};

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.signature.class, self.title)?;
        writeln!(f, "  {}", self.meaning)?;
        f.write_char('\n')?;
        if let Some(said) = &self.assertion {
            assertion(f, said)?;
        } else if let Some(condition) = &self.signature.condition {
            writeln!(f, "said:      {condition}")?;
        }
        if let Some(function) = self.signature.function.as_ref().filter(|_| self.assertion.is_none()) {
            writeln!(f, "kernel:    {function}")?;
        }
        match self.operators.as_slice() {
            [] => writeln!(f, "operator:  the log does not tell")?,
            [one] => writeln!(f, "operator:  {one}")?,
            many => writeln!(f, "operator:  one of {} (the log does not tell which)", many.join(", "))?,
        }
        if let Some(exception) = &self.signature.exception {
            writeln!(f, "exception: {exception}")?;
        }
        match &self.stack.frame {
            Some(frame) => {
                writeln!(f, "line:      {}:{} in {}: {}", frame.file, frame.line, frame.function, frame.code)?;
                writeln!(f, "           {}", self.stack.words)?;
            }
            None => writeln!(f, "line:      {}", self.stack.words)?,
        }
        advice(f, &self.advice)?;
        if !self.remarks.is_empty() {
            writeln!(f, "\nAbout this log:")?;
            for remark in &self.remarks {
                writeln!(f, "- {}", remark.text)?;
            }
        }
        Ok(())
    }
}

fn assertion(f: &mut Formatter<'_>, said: &Said) -> fmt::Result {
    let expression = match said.expression.as_deref() {
        Some("") => "(empty)",
        Some(text) => text,
        None => "(cut off)",
    };
    write!(f, "assertion: {expression}  ({}", said.file)?;
    if let Some(line) = said.line {
        write!(f, ":{line}")?;
    }
    if let Some(function) = &said.function {
        write!(f, ", {function}")?;
    }
    match said.lines {
        1 => writeln!(f, "; one thread)")?,
        lines => writeln!(f, "; {lines} threads)")?,
    }
    if let Some(means) = &said.means {
        writeln!(f, "           {means}")?;
    }
    Ok(())
}

/// Mistakes, checks and mends; where several operators can have failed, the first of each.
fn advice(f: &mut Formatter<'_>, advice: &[AdviceFor]) -> fmt::Result {
    for (title, part) in PARTS {
        writeln!(f, "\n{title}:")?;
        match advice {
            [one] => part(&one.advice).iter().try_for_each(|line| writeln!(f, "- {line}"))?,
            many => {
                for one in many {
                    let line = part(&one.advice).first().map_or("", String::as_str);
                    writeln!(f, "- {}: {line}", one.operator.as_deref().unwrap_or("otherwise"))?;
                }
            }
        }
    }
    Ok(())
}

type Part = fn(&Advice) -> &[String];

/// The parts of advice under their titles.
const PARTS: [(&str, Part); 3] = [
    ("Usual mistakes", |advice| &advice.mistakes),
    ("What to check", |advice| &advice.check),
    ("How to mend it", |advice| &advice.mend),
];

impl Display for RunExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.signature.class, self.title)?;
        if !self.meaning.is_empty() {
            writeln!(f, "  {}", self.meaning)?;
        }
        if self.device == "emulated" {
            writeln!(f, "  Seen on the emulated device only, not on a GPU.")?;
        }
        f.write_char('\n')?;
        if let Some(condition) = &self.signature.condition {
            writeln!(f, "assertion: {condition}")?;
        }
        if let Some(words) = &self.condition {
            writeln!(f, "           {words}")?;
        }
        if let Some(line) = &self.line {
            writeln!(f, "line:      {}:{} in {}: {}", line.frame.file, line.frame.line, line.frame.func, line.text)?;
        }
        if self.swallowed {
            writeln!(
                f,
                "           the error was caught there, and the program went on: what it printed later points elsewhere"
            )?;
        }
        if let Some(operator) = &self.operator {
            writeln!(f, "operator:  {operator}")?;
        }
        for one in &self.arguments {
            writeln!(f, "           {}", argument(one))?;
        }
        if let Some(one) = &self.offence {
            writeln!(f, "value:     {}", offence(one))?;
        }
        if let Some(origin) = &self.origin {
            writeln!(f, "origin:    {}", origin.in_words())?;
        }
        writeln!(f, "mend:      {}", self.mend)?;
        if !self.path.is_empty() {
            writeln!(f, "\nThe path of the value:")?;
            for (number, one) in self.path.iter().enumerate() {
                writeln!(f, "{:3}. {}", number + 1, step(one))?;
            }
        }
        advice(f, &self.advice)
    }
}

/// An argument in one line: shape, type, range, NaN and infinite values.
pub(super) fn argument(one: &Argument) -> String {
    let mut parts = Vec::new();
    if let Some(shape) = &one.shape {
        parts.push(format!("{} {shape:?}", one.dtype.as_deref().unwrap_or("tensor")));
        parts.extend(one.device.iter().map(|device| format!("on {device}")));
        if let (Some(min), Some(max)) = (&one.min, &one.max) {
            parts.push(format!("from {min} to {max}"));
        }
        for (count, what) in [(one.nan, "NaN"), (one.inf, "infinite")] {
            parts.extend(count.map(|count| format!("{count} {what}")));
        }
    }
    parts.extend(one.value.clone());
    format!("{}: {}", one.name, parts.join(", "))
}

fn offence(one: &Offence) -> String {
    let value = one.value.as_deref().unwrap_or("not known");
    let mut words = match (one.kind.as_str(), one.limit.as_deref()) {
        ("above", Some(limit)) => format!("{value}, and it must be below {limit}"),
        ("below", Some(limit)) => format!("{value}, and it must not be below {limit}"),
        (_, Some(limit)) => format!("{value}, limit {limit}"),
        (kind, None) => format!("{value} ({kind})"),
    };
    if let Some(position) = &one.position {
        words += &format!(", at {position:?} of the operand");
    }
    if let Some(sample) = one.sample {
        words += &format!(", sample {sample} of the data set");
    }
    words
}

fn step(one: &Step) -> String {
    let text = one.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = one.value.split_whitespace().collect::<Vec<_>>().join(" ");
    let place: Vec<String> =
        one.position.iter().map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned)).collect();
    let at = if place.is_empty() { String::new() } else { format!(", the value at [{}]", place.join(", ")) };
    format!("{}:{} in {}: {text} = {value}{at}", one.file, one.line, one.function)
}
