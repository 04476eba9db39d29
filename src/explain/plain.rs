//! Owns what a terminal adds to a log: colours are taken out, and lines that a progress bar overwrote become lines.
//!
//! Invariant: bytes that are not part of an escape sequence pass unchanged, but for a lone carriage return, which ends a line.
//! Must not buffer more than one block.

use std::io::{self, Read};

use encoding_rs::{Decoder, UTF_16BE, UTF_16LE};

/// How much is decoded at a time where the log is UTF-16.
const CHUNK: usize = 64 * 1024;

/// A log as plain text.
pub(super) struct Plain<R> {
    inner: R,
    wide: Option<Wide>,
    state: State,
    begun: bool,
    /// First bytes that turned out to be text.
    first: Vec<u8>,
}

/// What Windows shells write.
struct Wide {
    decoder: Decoder,
    text: Vec<u8>,
    taken: usize,
    raw: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// Behind an escape.
    Escape,
    /// Inside a control sequence, up to its final letter.
    Sequence,
    /// Inside a title or link, up to a bell or an escape.
    Title,
    /// Behind a carriage return.
    Return,
}

impl<R: Read> Plain<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, wide: None, state: State::Text, begun: false, first: Vec::new() }
    }

    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        let mut mark = [0; 2];
        let mut count = 0;
        while count < 2 {
            match self.inner.read(&mut mark[count..])? {
                0 => break,
                more => count += more,
            }
        }
        let encoding = match mark {
            [0xff, 0xfe] => Some(UTF_16LE),
            [0xfe, 0xff] => Some(UTF_16BE),
            _ => None,
        };
        match encoding {
            Some(encoding) => {
                let decoder = encoding.new_decoder_without_bom_handling();
                self.wide = Some(Wide { decoder, text: Vec::new(), taken: 0, raw: vec![0; CHUNK] });
            }
            None => self.first = mark[..count].to_vec(),
        }
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.first[..count]);
            self.first.drain(..count);
            return Ok(count);
        }
        match &mut self.wide {
            Some(wide) => wide.read(&mut self.inner, buffer),
            None => self.inner.read(buffer),
        }
    }

    /// Takes escape sequences out of a block, in place; answers how much is left.
    fn strip(&mut self, block: &mut [u8]) -> usize {
        // Most blocks hold nothing special: they pass at the speed of memory.
        let first = match self.state {
            State::Text => memchr::memchr2(0x1b, b'\r', block).unwrap_or(block.len()),
            _ => 0,
        };
        let mut to = first;
        for at in first..block.len() {
            let byte = block[at];
            let mut keep = |kept: u8| {
                block[to] = kept;
                to += 1;
            };
            self.state = match (self.state, byte) {
                (State::Text | State::Return, 0x1b) => State::Escape,
                (State::Text, b'\r') => {
                    keep(b'\n');
                    State::Return
                }
                // The line was ended already.
                (State::Return, b'\n' | b'\r') => {
                    if byte == b'\n' {
                        State::Text
                    } else {
                        State::Return
                    }
                }
                (State::Text | State::Return, _) => {
                    keep(byte);
                    State::Text
                }
                (State::Escape, b'[') => State::Sequence,
                (State::Escape, b']') => State::Title,
                (State::Escape, _) => State::Text,
                (State::Sequence, b'@'..=b'~') => State::Text,
                // Not a sequence after all: a broken one does not swallow the log.
                (State::Sequence, b'\n') | (State::Title, b'\n') => {
                    keep(byte);
                    State::Text
                }
                (State::Sequence, _) => State::Sequence,
                (State::Title, 0x07) => State::Text,
                (State::Title, 0x1b) => State::Escape,
                (State::Title, _) => State::Title,
            };
        }
        to
    }
}

impl Wide {
    fn read(&mut self, inner: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.text.len() {
            let count = inner.read(&mut self.raw)?;
            self.text.clear();
            self.taken = 0;
            let most = self.decoder.max_utf8_buffer_length(count).unwrap_or(4 * CHUNK);
            self.text.resize(most, 0);
            let (_, _, written, _) = self.decoder.decode_to_utf8(&self.raw[..count], &mut self.text, count == 0);
            self.text.truncate(written);
            if count == 0 && written == 0 {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.text.len() - self.taken);
        buffer[..count].copy_from_slice(&self.text[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.begun {
            self.begin()?;
        }
        loop {
            let count = self.next(buffer)?;
            if count == 0 {
                return Ok(0);
            }
            let left = self.strip(&mut buffer[..count]);
            if left > 0 {
                return Ok(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that answers one byte at a time: a sequence may be cut anywhere.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(1).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn plain(bytes: &[u8]) -> String {
        let mut whole = String::new();
        Plain::new(bytes).read_to_string(&mut whole).expect("text");
        let mut slow = String::new();
        Plain::new(Slow(bytes)).read_to_string(&mut slow).expect("text");
        assert_eq!(whole, slow);
        whole
    }

    #[test]
    fn colours_go_and_overwritten_lines_become_lines() {
        let text =
            format!("{}\x1b[1;31mRuntimeError\x1b[0m: x\r\n 1/3\r 2/3\x1b]0;title\x07\x1b[K\nend", "a".repeat(100));
        assert_eq!(plain(text.as_bytes()), format!("{}RuntimeError: x\n 1/3\n 2/3\nend", "a".repeat(100)));
        assert_eq!(plain(b"a"), "a");
        assert_eq!(plain(b""), "");
        assert_eq!(plain(b"\x1b[ broken\nnext"), "roken\nnext");
    }

    #[test]
    fn what_a_windows_shell_writes_is_read() {
        for (mark, big) in [([0xff, 0xfe], false), ([0xfe, 0xff], true)] {
            let mut bytes = mark.to_vec();
            for unit in "Fehler: Größe\r\n".encode_utf16() {
                bytes.extend(if big { unit.to_be_bytes() } else { unit.to_le_bytes() });
            }
            assert_eq!(plain(&bytes), "Fehler: Größe\n");
        }
    }
}
