//! Owns the lexer of shell text: words with their quoting, operators, redirections.
//!
//! Invariant: text that it does not understand for sure is refused with the line and the construct; it never guesses.
//! Must not expand anything: `script` does.

/// A word as written: its parts in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    /// The parts; none for an empty word.
    pub(super) parts: Vec<Part>,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Plain text without quotes: subject to `~` and wildcards.
    Plain(String),
    /// Text in quotes, or behind a backslash.
    Quoted(String),
    /// `$NAME` or `${...}`: what stands between the braces.
    Parameter(String, Quotes),
    /// `$(...)`: what stands between the brackets.
    Output(String, Quotes),
}

/// Whether an expansion stands between double quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Yes: its value stays one word.
    Inside,
    /// No: its value is split at blanks.
    Outside,
}

/// A token and the line that it starts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: TokenKind,
    /// 1-based.
    pub(super) line: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word.
    Word(Word),
    /// `;`, `&` or the end of a line.
    End,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|` or `|&`
    Pipe,
    /// A redirection of input; its target.
    Input(Word),
    /// A redirection of output; dropped, since trials keep output themselves.
    Output(Word),
}

/// Why text was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ShellError {
    /// A quote or bracket is open at the end.
    #[error("`{0}` is not closed")]
    Open(char),
    /// A construct that only a shell can tell the meaning of.
    #[error("line {line}: {what}")]
    Dynamic {
        /// 1-based.
        line: usize,
        /// The construct.
        what: String,
    },
}

/// Splits shell text into tokens.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, ShellError> {
    let mut lexer = Lexer { text: text.chars().collect(), at: 0, line: 1, bodies: Vec::new() };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

struct Lexer {
    text: Vec<char>,
    at: usize,
    line: usize,
    /// End words of here-documents that start on the next line.
    bodies: Vec<String>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek(0)?;
        self.at += 1;
        if next == '\n' {
            self.line += 1;
        }
        Some(next)
    }

    fn dynamic(&self, what: &str) -> ShellError {
        ShellError::Dynamic { line: self.line, what: what.to_owned() }
    }

    fn token(&mut self) -> Result<Option<Token>, ShellError> {
        self.skip_blanks();
        let line = self.line;
        let Some(next) = self.peek(0) else { return Ok(None) };
        let kind = match (next, self.peek(1)) {
            ('\n', _) => {
                self.take();
                self.skip_bodies();
                TokenKind::End
            }
            (';', Some(';')) => return Err(self.dynamic("`;;`")),
            ('&', Some('&')) => self.operator(2, TokenKind::And),
            ('&', Some('>')) => {
                self.at += if self.peek(2) == Some('>') { 3 } else { 2 };
                TokenKind::Output(self.target()?)
            }
            (';' | '&', _) => self.operator(1, TokenKind::End),
            ('|', Some('|')) => self.operator(2, TokenKind::Or),
            ('|', Some('&')) => self.operator(2, TokenKind::Pipe),
            ('|', _) => self.operator(1, TokenKind::Pipe),
            ('(' | ')', _) => return Err(self.dynamic("a sub-shell or function")),
            ('<' | '>', _) => self.redirection()?,
            ('0'..='9', _) if self.is_numbered_redirection() => {
                while self.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                    self.at += 1;
                }
                self.redirection()?
            }
            _ => TokenKind::Word(self.word()?),
        };
        Ok(Some(Token { kind, line }))
    }

    fn operator(&mut self, length: usize, kind: TokenKind) -> TokenKind {
        self.at += length;
        kind
    }

    fn skip_blanks(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(' ' | '\t' | '\r'), _) => self.at += 1,
                (Some('\\'), Some('\n')) => {
                    self.at += 1;
                    self.take();
                }
                (Some('#'), _) => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn is_numbered_redirection(&self) -> bool {
        let rest = &self.text[self.at..];
        let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        matches!(rest.get(digits), Some('<' | '>'))
    }

    fn redirection(&mut self) -> Result<TokenKind, ShellError> {
        let input = self.take() == Some('<');
        if self.peek(0) == Some('(') {
            return Err(self.dynamic("a process substitution"));
        }
        if input && self.peek(0) == Some('<') {
            self.at += 1;
            if self.peek(0) == Some('<') {
                self.at += 1;
                return Ok(TokenKind::Input(self.target()?));
            }
            if self.peek(0) == Some('-') {
                self.at += 1;
            }
            let word = self.target()?;
            let end: String = word.parts.iter().map(|part| match part {
                Part::Plain(text) | Part::Quoted(text) | Part::Parameter(text, _) | Part::Output(text, _) => text.as_str(),
            }).collect();
            self.bodies.push(end);
            return Ok(TokenKind::Input(word));
        }
        while matches!(self.peek(0), Some('>' | '&' | '|')) {
            self.at += 1;
        }
        let target = self.target()?;
        Ok(if input { TokenKind::Input(target) } else { TokenKind::Output(target) })
    }

    fn target(&mut self) -> Result<Word, ShellError> {
        self.skip_blanks();
        self.word()
    }

    /// Passes the bodies of the here-documents of the line that just ended.
    fn skip_bodies(&mut self) {
        for end in std::mem::take(&mut self.bodies) {
            while self.peek(0).is_some() {
                let mut line = String::new();
                while let Some(c) = self.take() {
                    if c == '\n' {
                        break;
                    }
                    line.push(c);
                }
                if line.trim_start_matches('\t').trim_end_matches('\r') == end {
                    break;
                }
            }
        }
    }

    fn word(&mut self) -> Result<Word, ShellError> {
        let mut word = Word::default();
        while let Some(next) = self.peek(0) {
            match next {
                ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                '(' => return Err(self.dynamic("an array or function")),
                '`' => return Err(self.dynamic("back-ticks")),
                '\'' => {
                    self.at += 1;
                    let mut text = String::new();
                    loop {
                        match self.take() {
                            Some('\'') => break,
                            Some(c) => text.push(c),
                            None => return Err(ShellError::Open('\'')),
                        }
                    }
                    word.parts.push(Part::Quoted(text));
                }
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    self.at += 1;
                    match self.take() {
                        Some('\n') | None => {}
                        Some(c) => word.parts.push(Part::Quoted(c.to_string())),
                    }
                }
                '$' => {
                    let part = self.dollar(Quotes::Outside)?;
                    word.parts.push(part);
                }
                c => {
                    self.at += 1;
                    match word.parts.last_mut() {
                        Some(Part::Plain(text)) => text.push(c),
                        _ => word.parts.push(Part::Plain(c.to_string())),
                    }
                }
            }
        }
        Ok(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), ShellError> {
        self.at += 1;
        let mut text = String::new();
        // An empty pair of quotes is a word too.
        word.parts.push(Part::Quoted(String::new()));
        loop {
            match self.peek(0) {
                None => return Err(ShellError::Open('"')),
                Some('"') => {
                    self.at += 1;
                    word.parts.push(Part::Quoted(text));
                    return Ok(());
                }
                Some('`') => return Err(self.dynamic("back-ticks")),
                Some('\\') if matches!(self.peek(1), Some('$' | '`' | '"' | '\\' | '\n')) => {
                    self.at += 1;
                    if let Some(c) = self.take()
                        && c != '\n'
                    {
                        text.push(c);
                    }
                }
                Some('$') => {
                    word.parts.push(Part::Quoted(std::mem::take(&mut text)));
                    let part = self.dollar(Quotes::Inside)?;
                    word.parts.push(part);
                }
                Some(_) => text.extend(self.take()),
            }
        }
    }

    fn dollar(&mut self, quotes: Quotes) -> Result<Part, ShellError> {
        self.at += 1;
        match self.peek(0) {
            Some('(') if self.peek(1) == Some('(') => Err(self.dynamic("arithmetic")),
            Some('(') => Ok(Part::Output(self.bracketed('(', ')')?, quotes)),
            Some('{') => Ok(Part::Parameter(self.bracketed('{', '}')?, quotes)),
            Some('\'') if quotes == Quotes::Outside => Err(self.dynamic("`$'...'`")),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let start = self.at;
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.at += 1;
                }
                Ok(Part::Parameter(self.text[start..self.at].iter().collect(), quotes))
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.at += 1;
                Ok(Part::Parameter(c.to_string(), quotes))
            }
            _ => Ok(Part::Quoted("$".to_owned())),
        }
    }

    /// What stands between a pair of brackets, nested ones and quotes minded.
    fn bracketed(&mut self, open: char, close: char) -> Result<String, ShellError> {
        self.at += 1;
        let mut text = String::new();
        let mut depth = 1;
        let mut quote = None;
        loop {
            let Some(c) = self.take() else { return Err(ShellError::Open(open)) };
            match quote {
                Some(q) if c == q => quote = None,
                Some(_) => {}
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c == open => depth += 1,
                None if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(text);
                    }
                }
                None => {}
            }
            text.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Vec<String> {
        let words = lex(text).unwrap().into_iter().filter_map(|token| match token.kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        });
        let text = |word: Word| word.parts.into_iter().map(|part| match part {
            Part::Plain(text) | Part::Quoted(text) => text,
            Part::Parameter(text, _) => format!("<{text}>"),
            Part::Output(text, _) => format!("({text})"),
        });
        words.map(|word| text(word).collect()).collect()
    }

    #[test]
    fn words_keep_their_quotes_apart_from_their_text() {
        assert_eq!(plain(r#"python x.py --a "b c" 'd $e' f\ g"#), ["python", "x.py", "--a", "b c", "d $e", "f g"]);
        assert_eq!(plain("a \\\n  b # note\nc"), ["a", "b", "c"]);
        assert_eq!(plain(r#"x "" '' "$A"b ${C:-d e}"#), ["x", "", "", "<A>b", "<C:-d e>"]);
        assert_eq!(plain(r#"cd "$(dirname "$0")" 2>&1 | tee log"#), ["cd", "(dirname \"$0\")", "tee", "log"]);
        assert_eq!(plain("a#b '#'"), ["a#b", "#"]);
    }

    #[test]
    fn here_documents_are_passed_over() {
        assert_eq!(plain("cat <<EOF > c.yaml\nif a; then (\nEOF\npython x.py"), ["cat", "python", "x.py"]);
    }

    #[test]
    fn open_quotes_and_dynamic_text_are_refused() {
        assert_eq!(lex("python 'x.py"), Err(ShellError::Open('\'')));
        assert_eq!(lex("a\nb $((1+2))"), Err(ShellError::Dynamic { line: 2, what: "arithmetic".to_owned() }));
        assert!(lex("f() { python x.py; }").is_err());
    }
}
