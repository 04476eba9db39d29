//! Owns the JUnit XML that CI reads: one suite a version of torch, one case an entry.
//!
//! Invariant: only elements and attributes that the schema of Jenkins' xUnit plug-in (junit-10) has, and only characters
//! that XML 1.0 has. Must not decide what counts as a failure of the command.

use std::fmt::Write;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

/// The outcome of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// As expected.
    Passed,
    /// Not as expected.
    Failure,
    /// The entry itself is wrong.
    Error,
    /// Not run.
    Skipped,
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The folder that it is in, which readers show as a group.
    pub group: String,
    /// Seconds.
    pub seconds: f64,
    /// Its outcome.
    pub mark: Mark,
    /// The verdict's name.
    pub kind: String,
    /// In one line.
    pub message: String,
    /// The end of what it printed.
    pub log: String,
}

/// The entries with one version of torch.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Such as `torch 2.11.0`.
    pub name: String,
    /// Facts of the machine.
    pub properties: Vec<(String, String)>,
    /// In the order of the corpus.
    pub cases: Vec<Case>,
}

/// The whole document.
///
/// # Errors
/// When the text cannot be written, which memory always can.
pub fn xml(suites: &[Suite]) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new_with_indent(&mut bytes, b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all: Vec<&Case> = suites.iter().flat_map(|suite| &suite.cases).collect();
    writer
        .create_element("testsuites")
        .with_attribute(("name", "reduce corpus"))
        .with_attributes(attributes(&counts(&all)[..4]))
        .write_inner_content(|writer| suites.iter().try_for_each(|one| suite(writer, one)))?;
    bytes.push(b'\n');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn suite(writer: &mut Writer<&mut Vec<u8>>, suite: &Suite) -> std::io::Result<()> {
    let cases: Vec<&Case> = suite.cases.iter().collect();
    writer
        .create_element("testsuite")
        .with_attribute(("name", clean(&suite.name).as_str()))
        .with_attributes(attributes(&counts(&cases)))
        .write_inner_content(|writer| {
            writer.create_element("properties").write_inner_content(|writer| {
                for (name, value) in &suite.properties {
                    writer
                        .create_element("property")
                        .with_attribute(("name", clean(name).as_str()))
                        .with_attribute(("value", clean(value).as_str()))
                        .write_empty()?;
                }
                Ok(())
            })?;
            suite.cases.iter().try_for_each(|one| case(writer, one))
        })?;
    Ok(())
}

fn case(writer: &mut Writer<&mut Vec<u8>>, case: &Case) -> std::io::Result<()> {
    let element = writer
        .create_element("testcase")
        .with_attribute(("name", clean(&case.name).as_str()))
        .with_attribute(("classname", clean(&case.group).as_str()))
        .with_attribute(("time", seconds(case.seconds).as_str()));
    let tag = match case.mark {
        Mark::Passed => return element.write_empty().map(drop),
        Mark::Failure => "failure",
        Mark::Error => "error",
        Mark::Skipped => "skipped",
    };
    element.write_inner_content(|writer| {
        writer
            .create_element(tag)
            .with_attribute(("type", clean(&case.kind).as_str()))
            .with_attribute(("message", clean(&case.message).as_str()))
            .write_text_content(BytesText::new(&clean(&case.log)))?;
        Ok(())
    })?;
    Ok(())
}

/// Number of cases, of failures and of errors, seconds, and number of cases that were not run.
fn counts(cases: &[&Case]) -> [(&'static str, String); 5] {
    let count = |mark| cases.iter().filter(|case| case.mark == mark).count().to_string();
    [
        ("tests", cases.len().to_string()),
        ("failures", count(Mark::Failure)),
        ("errors", count(Mark::Error)),
        ("time", seconds(cases.iter().map(|case| case.seconds).sum())),
        ("skipped", count(Mark::Skipped)),
    ]
}

fn attributes<'a>(counts: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    counts.iter().map(|(name, value)| (*name, value.as_str()))
}

fn seconds(value: f64) -> String {
    format!("{value:.3}")
}

/// Without the characters that XML 1.0 cannot hold, and without the sequences that colour a terminal.
fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.peek() == Some(&'[') => {
                letters.next();
                // Parameters, then one final byte.
                while letters.next_if(|next| !('@'..='~').contains(next)).is_some() {}
                letters.next();
            }
            '\t' | '\n' | '\r' | ' '..='\u{7e}' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' => {
                clean.push(letter);
            }
            '\u{10000}'..='\u{10ffff}' => clean.push(letter),
            other => drop(write!(clean, "\\u{{{:x}}}", u32::from(other))),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_written_otherwise() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m\0b\u{ffff}c"), "ared\\u{0}b\\u{ffff}c");
        assert_eq!(clean("\u{1b}["), "");
        let case = |mark, message: &str, log: &str| Case {
            name: "a<b>&\"'".into(),
            group: "corpus".into(),
            seconds: 1.25,
            mark,
            kind: "fixed now".into(),
            message: message.into(),
            log: log.into(),
        };
        let suite = Suite {
            name: "torch 2.11.0".into(),
            properties: vec![("device".into(), "emulated".into())],
            cases: vec![case(Mark::Passed, "", ""), case(Mark::Failure, "x\ny", "]]>\u{8}<tag>")],
        };
        let text = xml(&[suite]).unwrap();
        let mut reader = quick_xml::Reader::from_str(&text);
        reader.config_mut().check_end_names = true;
        while !matches!(reader.read_event().unwrap(), Event::Eof) {}
        assert!(text.contains("name=\"a&lt;b&gt;&amp;&quot;&apos;\""), "{text}");
        assert!(text.contains("tests=\"2\" failures=\"1\" errors=\"0\" time=\"2.500\" skipped=\"0\""), "{text}");
        assert!(text.contains("]]&gt;\\u{8}&lt;tag&gt;"), "{text}");
        assert!(text.contains("message=\"x&#10;y\"") || text.contains("message=\"x\ny\""), "{text}");
    }
}
