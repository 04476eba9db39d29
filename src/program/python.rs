//! The parser of Python: the only file that names its crates.
//!
//! Owns the call into the parser and the guard before it. Invariant: no text makes it panic or overflow the stack; a text
//! that the parser refuses comes back as an error. Must not know files, statements or edits; the rest of `program` (and the
//! passes) name the syntax tree through `ast` from here, so that a change of parser stays in this file.

pub(crate) use ruff_python_ast as ast;
pub(crate) use ruff_python_ast::token::{Token, TokenKind};
pub(crate) use ruff_python_ast::visitor;
pub(crate) use ruff_python_ast::{AnyNodeRef, Expr, ExprContext, Pattern, Stmt};
pub(crate) use ruff_text_size::Ranged;

use ruff_python_parser::{Parsed, parse_module};

/// Why a text is not Python, and where (byte offset).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// A parsed module: its tree and all its tokens, comments and line ends included.
#[derive(Debug)]
pub(crate) struct Module {
    parsed: Parsed<ast::ModModule>,
}

impl Module {
    /// Parses a whole file.
    pub(crate) fn parse(text: &str) -> Result<Module, Refusal> {
        if let Some(offset) = too_deep(text) {
            return Err(Refusal { offset, message: "nested too deeply".to_owned() });
        }
        match parse_module(text) {
            Ok(parsed) => Ok(Module { parsed }),
            Err(error) => Err(Refusal { offset: error.location.start().to_usize(), message: error.error.to_string() }),
        }
    }

    /// The statements of the module.
    pub(crate) fn body(&self) -> &[Stmt] {
        &self.parsed.syntax().body
    }

    /// Every token in order of the text.
    pub(crate) fn tokens(&self) -> &[Token] {
        self.parsed.tokens()
    }

    /// The index of the first token that starts at an offset or after it.
    pub(crate) fn token_from(&self, offset: usize) -> usize {
        self.tokens().partition_point(|token| token.start().to_usize() < offset)
    }
}

/// The byte range of a node.
pub(crate) fn range(node: &impl Ranged) -> std::ops::Range<usize> {
    node.range().to_std_range()
}

/// Nesting that Python itself refuses (200 brackets, 100 indents) or that would exhaust the stack of a visitor.
/// A cheap upper bound on the bytes: brackets in strings count as well, so the limit is well above Python's. Operators and
/// dots nest to the left, one level each, until a comma, a colon or an equals sign starts another expression; words such
/// as `not` nest to the right.
fn too_deep(text: &str) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut prefixes = 0_usize;
    let mut operators = 0_usize;
    let mut last = 0;
    let mut in_comment = false;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'\n' | b'\r' => in_comment = false,
            b'#' => in_comment = true,
            _ => {}
        }
        match byte {
            b'(' | b'[' | b'{' => brackets += 1,
            b')' | b']' | b'}' => brackets = brackets.saturating_sub(1),
            b'-' | b'+' | b'~' => prefixes += 1,
            b' ' | b'\\' | b'\n' | b'\r' | b'\t' => {}
            _ => prefixes = 0,
        }
        match byte {
            b',' | b':' | b';' | b'=' => operators = 0,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'@' | b'.' | b'(' | b'[' => {
                operators += usize::from(byte != last && !in_comment);
            }
            b'n' if text.as_bytes()[offset..].starts_with(b"not ") => operators += usize::from(!in_comment),
            _ => {}
        }
        last = byte;
        if brackets > 1_000 || operators > 2_000 || prefixes > 1_000 && is_unary(text, offset) {
            return Some(offset);
        }
    }
    None
}

/// Whether the long run of signs that ends here is an expression rather than a ruler in a comment or string.
fn is_unary(text: &str, offset: usize) -> bool {
    let line = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    !text[line..offset].contains(['#', '"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_nesting_is_refused_before_it_reaches_the_parser() {
        assert!(Module::parse(&"(".repeat(100_000)).is_err());
        assert!(Module::parse(&format!("x = {}1", "-".repeat(100_000))).is_err());
        assert!(Module::parse(&format!("x = {}a", "not ".repeat(100_000))).is_err());
        assert!(Module::parse(&format!("x = a{}", "+a".repeat(100_000))).is_err());
        assert!(Module::parse(&format!("x = (a{})", "\n.a".repeat(100_000))).is_err());
        assert!(Module::parse(&format!("# {}\nx = 1", "-".repeat(5_000))).is_ok());
        assert!(Module::parse(&format!("'''{}'''\nx = 1", "-- ".repeat(1_000))).is_ok());
    }
}
