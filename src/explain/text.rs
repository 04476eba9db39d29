//! Owns the layout of an explanation as text.
//!
//! Invariant: plain lines without colours, readable in a terminal, a log and a screen reader alike.
//! Must not add facts.

use std::fmt::{self, Display, Formatter, Write};

use super::{AdviceFor, Explanation, Said};

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

/// Mistakes, checks and mends, by operator where several can have failed.
fn advice(f: &mut Formatter<'_>, advice: &[AdviceFor]) -> fmt::Result {
    for one in advice {
        let of = match &one.operator {
            Some(operator) if advice.len() > 1 => format!(" with {operator}"),
            _ => String::new(),
        };
        for (title, lines) in [
            ("Usual mistakes", &one.advice.mistakes),
            ("What to check", &one.advice.check),
            ("How to mend it", &one.advice.mend),
        ] {
            writeln!(f, "\n{title}{of}:")?;
            for line in lines {
                writeln!(f, "- {line}")?;
            }
        }
    }
    Ok(())
}
